package cosmos_test

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/expect"
)

// The answers are from a real node, except for amounts and keys.
func TestServicesAnswerByABCIAsANodeDoes(t *testing.T) {
	const bank, wallet = "/cosmos.bank.v1beta1.Query/Balance", "\n\x2d" + cosmos.Wallet + "\x12\x05stake"
	chain := cosmos.NewChain(state.Options{ChainID: "devnet-1", Delegators: 1530})
	for _, tt := range []struct {
		name, path, data string
		height           int64
		want             cosmos.Answer
	}{
		{"balance", bank, wallet, 14, cosmos.Answer{Value: []byte("\n\x13\n\x05stake\x12\n1000000000"), Height: 14}},
		{"newest balance", bank, wallet, 0, cosmos.Answer{Value: []byte("\n\x13\n\x05stake\x12\n1000000000"), Height: 1000}},
		{"parameters", "/cosmos.staking.v1beta1.Query/Params", "", 14, cosmos.Answer{Value: []byte("\n\x16\n\x03\x08\x96\x01\x10d\x18\x07\x20\x90N\x2a\x05stake2\x010"), Height: 14}},
		{"future block", bank, wallet, 1001, cosmos.Answer{Code: 26, Codespace: "sdk", Log: "cannot query with height in the future; please provide a valid height: invalid height"}},
		{"missing method", "/cosmos.bank.v1beta1.Query/Nope", "", 14, cosmos.Answer{Code: 6, Codespace: "sdk", Log: "unknown query path: unknown request"}},
		{"invalid address", bank, "\n\x04nope\x12\x05stake", 14, cosmos.Answer{Code: 18, Codespace: "sdk", Height: 14,
			Log: "rpc error: code = InvalidArgument desc = invalid address: decoding bech32 failed: invalid bech32 string length 4: invalid request"}},
		{"missing account", "/cosmos.auth.v1beta1.Query/Account", "\n\x2dcosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu", 14, cosmos.Answer{Code: 22, Codespace: "sdk", Height: 14,
			Log: "rpc error: code = NotFound desc = account cosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu not found: key not found"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := chain.Query(clock{1000, 1, false}, tt.path, []byte(tt.data), tt.height)
			if (got.Status == 0) != (tt.want.Code == 0) || (got.Message == "") != (tt.want.Code == 0) {
				t.Errorf("gRPC status = %d %q, want an error only if ABCI has one", got.Status, got.Message)
			}
			got.Status, got.Message = 0, ""
			expect.NoDiff(t, got, tt.want, "answer")
		})
	}
}
