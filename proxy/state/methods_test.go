package state_test

import (
	"testing"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/node"
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

// A method costs a node what the path costs that gives the same.
func TestAMethodCostsWhatItsPathDoes(t *testing.T) {
	o := state.Options{Rows: dialect.MethodRows([]dialect.Row{
		{Method: "/cosmos.bank.v1beta1.Query/Balance", Cost: node.Cheap},
		{Method: "/cosmos.staking.v1beta1.Query/Validators", Cost: node.Page},
		{Method: "/cosmos.tx.v1beta1.Service/GetTxsEvent", Cost: node.Scan},
		{Cost: node.Scan},
	})}
	page := func(limit ...byte) string {
		p := append([]byte{0x0a, 1, 'k', 0x18}, limit...)
		return string(append([]byte{0x0a, 1, 'a', 0x12, byte(len(p))}, p...))
	}
	for _, c := range []struct {
		name, message string
		want          node.Cost
	}{
		{"/cosmos.bank.v1beta1.Query/Balance", "\x0a\x07cosmos1", node.Cheap},
		{"/cosmos.staking.v1beta1.Query/Validators", "", node.Page},
		{"/cosmos.staking.v1beta1.Query/Validators", page(0xe8, 7), node.Page},
		{"/cosmos.staking.v1beta1.Query/Validators", page(0xe9, 7), node.Scan}, // 1001
		{"/cosmos.staking.v1beta1.Query/Validators", "\x12\x03\x18\xe9\x07\xff", node.Scan},
		{"/cosmos.staking.v1beta1.Query/Validators", "\x12\x05\x18\xe9\x07\x30\x01", node.Page}, // no field of a page
		{"/cosmos.staking.v1beta1.Query/Validators", "\x12\xff", node.Page},
		{"/osmosis.gamm.v1beta1.Query/Pools", "", node.Page}, // as an unknown path
		{"/cosmos.tx.v1beta1.Service/GetTxsEvent", "", node.Scan},
		{"/cosmos.tx.v1beta1.Service/Simulate", page(0xe9, 7), node.Page}, {"/app/simulate", "", node.Page}, {"app/simulate", "", node.Page}, {"/app/simulate/x", "", node.Page}, {"/app/simulated", "", node.Cheap},
		{"/cosmos.base.node.v1beta1.Service/Config", "", node.Cheap}, {"/app/version", "", node.Cheap},
		{"/store/acc/key", "\x18\xe9\x07", node.Cheap}, {"/store/acc/subspace", "", node.Scan}, {"store/acc/subspace", "", node.Scan}, {"store/acc/key", "", node.Cheap},
	} {
		if got := o.CostOf(c.name, []byte(c.message)); got != c.want {
			t.Errorf("%s %x: %s, want %s", c.name, c.message, got, c.want)
		}
	}
}
