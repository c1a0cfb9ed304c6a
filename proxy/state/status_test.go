package state_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/proxy/state"
)

// The texts are from a node of SDK 0.54.
func TestErrorOfRPCBecomesOriginalStatus(t *testing.T) {
	for _, tt := range []struct {
		code   int
		log    string
		height int
		want   codes.Code
		text   string
		ran    bool
	}{
		{22, "rpc error: code = NotFound desc = account x not found: key not found", 7, codes.NotFound, "account x not found", true},
		{18, "rpc error: code = InvalidArgument desc = empty address: invalid request", 7, codes.InvalidArgument, "empty address", true},
		{18, "decoding bech32 failed: invalid request", 7, codes.Unknown, "decoding bech32 failed", true},
		{18, "proto: wrong wireType = 2 for field ProposalId: invalid request", 7, codes.Internal, "grpc: error unmarshalling request: proto: wrong wireType = 2 for field ProposalId", false},
		{18, "unexpected EOF: invalid request", 7, codes.Internal, "grpc: error unmarshalling request: unexpected EOF", false},
		{6, "group: not found: unknown request", 7, codes.Unknown, "codespace sdk code 38: not found: group", true},
		{6, "expected 'wasm' got 'cosmos': internal logic error: unknown request", 7, codes.Unknown, "codespace sdk code 35: internal logic error: expected 'wasm' got 'cosmos'", true},
		{6, "code 1: no such contract: unknown request", 7, codes.Unknown, "code 1: no such contract", true},
		{6, "unknown query path: unknown request", 0, codes.Unimplemented, "unknown service a.Query", false},
		{26, "cannot query with height in the future; please provide a valid height: invalid height", 0, codes.Unknown, "codespace sdk code 26: invalid height: cannot query with height in the future; please provide a valid height", false},
	} {
		member := fmt.Sprintf(`"result":{"response":{"code":%d,"log":%q,"height":"%d","codespace":"sdk"}}`, tt.code, tt.log, tt.height)
		_, st, ran := state.Options{}.Response("/a.Query/B", "application/json", []byte(member))
		if st.Code() != tt.want || st.Message() != tt.text || ran != tt.ran {
			t.Errorf("status of %q = %v %q, from the method: %v; want %v %q, %v", tt.log, st.Code(), st.Message(), ran, tt.want, tt.text, tt.ran)
		}
	}
}
