package cosmos

// Varies reports whether a key of the cache, without the parameters, or a method of gRPC belongs to a row whose responses
// differ in order from call to call, in some releases of the SDK. (ListAllInterfaces is another such method, but reflection
// is never cached.)
func Varies(keyOrMethod string) bool {
	return keyOrMethod == keyPrefix+"/cosmos/auth/v1beta1/module_accounts" || keyOrMethod == "/cosmos.auth.v1beta1.Query/ModuleAccounts"
}
