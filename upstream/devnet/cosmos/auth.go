package cosmos

import (
	"fmt"
)

// accountJSON renders an account of auth.
func (s state) accountJSON(a *account) string {
	text := accountText(a.raw)
	if document, ok := documents()["account/"+text]; ok {
		return document[len(`{"account":`) : len(document)-1]
	}
	return fmt.Sprintf(`{"@type":"/cosmos.auth.v1beta1.BaseAccount",%s`, s.accountInfo(a)[1:])
}

// accountInfo renders what all kinds of account have.
func (s state) accountInfo(a *account) string {
	sequence, key := s.sent(a), "null"
	if sequence > 0 {
		key = fmt.Sprintf(`{"@type":"/cosmos.crypto.secp256k1.PubKey","key":%q}`, s.publicKey(a))
	}
	return fmt.Sprintf(`{"address":%q,"pub_key":%s,"account_number":"%d","sequence":"%d"}`, accountText(a.raw), key, a.number, sequence)
}

func accounts(q *query) ([]byte, error) {
	return q.page.render(listing{
		name: "accounts", size: len(q.accounts),
		key:  func(i int) string { return q.accounts[i].raw },
		item: func(i int) string { return q.accountJSON(q.accounts[i]) },
	})
}

// known finds an account among the arguments.
func (q *query) known() (*account, error) {
	raw, err := q.account("address")
	if err != nil {
		return nil, err
	}
	a := q.byAddress[raw]
	if a == nil {
		return nil, fail(notFound, "account %s not found", q.args["address"])
	}
	return a, nil
}

func accountOf(q *query) ([]byte, error) {
	a, err := q.known()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"account":%s}`, q.accountJSON(a)), nil
}

func accountInfoOf(q *query) ([]byte, error) {
	a, err := q.known()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"info":%s}`, q.accountInfo(a)), nil
}

func addressByID(*query) ([]byte, error) {
	return nil, fail(invalidArgument, "requesting with id isn't supported, try to request using account-id")
}

func bech32Of(q *query) ([]byte, error) {
	return fmt.Appendf(nil, `{"address_string":%q}`, accountText(q.args["address_bytes"])), nil
}
