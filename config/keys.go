package config

import (
	"reflect"
	"slices"
	"strings"
)

// A Key is one thing that can be set.
type Key struct {
	Path    string // as in the file: chain.id
	Env     string // TIPCACHE_CHAIN_ID
	Flag    string // chain-id; empty: no flag
	Doc     string
	Default any
	List    bool // several values: repeat the flag, separate by commas in the variable
	Secret  bool // never printed; the variable with _FILE behind it names a file
	Reload  bool // can change while serving
}

// Keys lists all that can be set, in the order of the struct.
func Keys() []Key {
	var keys []Key
	eachKey("", reflect.ValueOf(Default()), func(path string, f reflect.StructField, v reflect.Value) {
		keys = append(keys, Key{
			Path:    path,
			Env:     envName(path),
			Flag:    f.Tag.Get("flag"),
			Doc:     f.Tag.Get("doc"),
			Default: plain(v),
			List:    f.Type.Kind() == reflect.Slice,
			Secret:  f.Tag.Get("secret") != "",
			Reload:  f.Tag.Get("reload") != "",
		})
	})
	return keys
}

// eachKey visits all that can be set in a configuration.
func eachKey(prefix string, v reflect.Value, visit func(path string, f reflect.StructField, v reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		path := prefix + f.Tag.Get("koanf")
		if f.Type.Kind() == reflect.Struct {
			eachKey(path+".", v.Field(i), visit)
		} else {
			visit(path, f, v.Field(i))
		}
	}
}

// isKey reports whether a path in a file names a setting.
func isKey(path string) bool {
	if rest, ok := strings.CutPrefix(path, "routes."); ok {
		_, field, _ := strings.Cut(rest, ".")
		return slices.ContainsFunc(Keys(), func(k Key) bool { return k.Path == "classes.live."+field })
	}
	return slices.ContainsFunc(Keys(), func(k Key) bool { return k.Path == path })
}

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v.Interface()
}
