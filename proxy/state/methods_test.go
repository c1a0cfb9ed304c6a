package state_test

import (
	"testing"

	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestMethodsThatReadStateAreRecognizedByName(t *testing.T) {
	for name, want := range map[string]bool{
		"/cosmos.bank.v1beta1.Query/Balance": true, "/a.Query/B_2": true,
		"/Query/Balance": false, "cosmos.bank.v1beta1.Query/Balance": false, "/.Query/Balance": false, "/a..Query/Balance": false, "/a.Query/": false, "/a.Query/B/": false, "/a.Query": false,
		"/a.Query/B?": false, "/a b.Query/B": false, "/a.SubQuery/B": false, "/a.Msg/Send": false, "": false, "/": false, "//a.Query/B": false, "/a/b.Query/C": false, "/cosmos.tx.v1beta1.Service/GetTx": false,
	} {
		expect.Equal(t, state.ReadsState(name), want, "ReadsState(%q)", name)
	}
}

// The classes of the paths' rows apply to the methods.
func TestResponsesForTransactionsAndBlocksAreImmutable(t *testing.T) {
	o := state.Options{Rows: dialect.MethodRows(cosmos.Rows(nil))}
	const comet = "/cosmos.base.tendermint.v1beta1.Service/"
	for _, tt := range []struct {
		method, message string
		want            bool
	}{
		{"/cosmos.tx.v1beta1.Service/GetTx", "\x0a\x02ab", true}, {"/cosmos.tx.v1beta1.Service/GetTxsEvent", "\x08\x05", false},
		{comet + "GetBlockResults", "\x08\x05", true}, {comet + "GetBlockResults", "", false}, {comet + "GetBlockResults", "\x08\x05\x08\x00", false},
		{comet + "GetBlockByHeight", "\x08\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01", false}, // -5
		{comet + "GetBlockByHeight", "\x08\x05", true}, {comet + "GetValidatorSetByHeight", "\x08\x05\x12\x02\x18\x01", true}, {"/cosmos.tx.v1beta1.Service/GetBlockWithTxs", "\x08\x05", true},
		{comet + "GetLatestBlock", "\x08\x05", false}, {"/a.b.Service/GetBlockResults", "\x08\x05", false}, {"/cosmos.bank.v1beta1.Query/Balance", "\x08\x05", false},
	} {
		expect.Equal(t, o.IsFixed(tt.method, []byte(tt.message)), tt.want, "IsFixed(%s, %x)", tt.method, tt.message)
	}
}

func TestMethodCostsSameAsItsPath(t *testing.T) {
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
		{"/cosmos.staking.v1beta1.Query/Validators", "\x12\x05\x18\xe9\x07\x30\x01", node.Scan}, // with an unknown field
		{"/cosmos.staking.v1beta1.Query/Validators", "\x12\x05\x18\xe9\x07\x12\x00", node.Page}, // a field of another type
		{"/cosmos.staking.v1beta1.Query/Validators", "\x12\xff", node.Page},
		{"/osmosis.gamm.v1beta1.Query/Pools", "", node.Page}, // as an unknown path
		{"/cosmos.tx.v1beta1.Service/GetTxsEvent", "", node.Scan},
		{"/cosmos.tx.v1beta1.Service/Simulate", page(0xe9, 7), node.Page}, {"/cosmos.tx.v1beta1.Service/TxEncodeAmino", "", node.Page}, {"/app/simulate", "", node.Page}, {"app/simulate", "", node.Page}, {"/app/simulate/x", "", node.Page}, {"/app/simulated", "", node.Cheap},
		{"/cosmos.base.node.v1beta1.Service/Config", "", node.Cheap}, {"/app/version", "", node.Cheap},
		{"/store/acc/key", "\x18\xe9\x07", node.Cheap}, {"/store/acc/subspace", "", node.Scan}, {"store/acc/subspace", "", node.Scan}, {"store/acc/key", "", node.Cheap},
	} {
		expect.Equal(t, o.CostOf(c.name, []byte(c.message)), c.want, "CostOf(%s, %x)", c.name, c.message)
	}
}
