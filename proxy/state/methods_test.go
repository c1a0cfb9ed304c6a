package state_test

import (
	"testing"

	"github.com/tipcache/tipcache/proxy/state"
)

func TestMethodsAreToldByTheirNames(t *testing.T) {
	for name, want := range map[string][2]bool{ // tells of the state, finds a transaction
		"/cosmos.bank.v1beta1.Query/Balance": {true, false}, "/a.Query/B_2": {true, false},
		"/Query/Balance": {}, "cosmos.bank.v1beta1.Query/Balance": {}, "/.Query/Balance": {}, "/a..Query/Balance": {}, "/a.Query/": {}, "/a.Query/B/": {}, "/a.Query": {},
		"/a.Query/B?": {}, "/a b.Query/B": {}, "/a.SubQuery/B": {}, "/a.Msg/Send": {}, "": {}, "/": {}, "//a.Query/B": {}, "/a/b.Query/C": {},
		"/cosmos.tx.v1beta1.Service/GetTx": {false, true}, "/a.b.tx.v1beta1.Service/GetTx": {false, true},
		"/tx.v1beta1.Service/GetTx": {}, ".tx.v1beta1.Service/GetTx": {}, "/.tx.v1beta1.Service/GetTx": {}, "/cosmos.tx.v1beta1.Service/GetTxsEvent": {},
	} {
		if got := [2]bool{state.Tells(name), state.Finds(name)}; got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
