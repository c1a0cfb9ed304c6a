package cosmos

import "fmt"

// accountJSON renders an account of auth.
func (s state) accountJSON(a *account) string {
	text := accountText(a.raw)
	if document, ok := documents()["account/"+text]; ok {
		return document[len(`{"account":`) : len(document)-1]
	}
	return `{"@type":"/cosmos.auth.v1beta1.BaseAccount",` + s.accountInfo(a)[1:]
}

// accountInfo renders what all kinds of account have.
func (s state) accountInfo(a *account) string {
	sequence, key := s.sent(a), "null"
	if sequence > 0 {
		key = fmt.Sprintf(`{"@type":"/cosmos.crypto.secp256k1.PubKey","key":%q}`, s.publicKey(a))
	}
	return fmt.Sprintf(`{"address":%q,"pub_key":%s,"account_number":"%d","sequence":"%d"}`, accountText(a.raw), key, a.number, sequence)
}

func accounts(q *query) (string, error) {
	return list(q, "accounts", q.accounts, func(a *account) string { return a.raw }, q.accountJSON)
}

// ofAccount serves the account that the path names.
func ofAccount(name string, render func(state, *account) string) handler {
	return func(q *query) (string, error) {
		raw, err := decode(accountPrefix, q.args["address"])
		if err != nil {
			return "", err
		}
		a := q.byAddress[raw]
		if a == nil {
			return "", fail(notFound, "account %s not found", q.args["address"])
		}
		return fmt.Sprintf(`{%q:%s}`, name, render(q.state, a)), nil
	}
}

func bech32Of(q *query) (string, error) {
	return fmt.Sprintf(`{"address_string":%q}`, accountText(q.args["address_bytes"])), nil
}
