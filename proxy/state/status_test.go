package state_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
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
		{6, "group: not found: unknown request", 7, codes.Unknown, "group: not found", true},
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

func TestAnswerOfRPCBecomesMessageOrStatus(t *testing.T) {
	broken, rows := []byte{0xff}, map[string]dialect.Row{"/a.Query/B": {}}
	refusal := expect.Value(proto.Marshal(status.New(codes.NotFound, "no").Proto()))(t)
	for name, tt := range map[string]struct {
		method, typ string
		body        []byte
		message     string
		want        codes.Code
		text        string
		ran         bool
	}{
		"a message of gRPC":              {"/a.Query/B", node.MessageType, []byte("v"), "v", codes.OK, "", true},
		"a status of the method":         {"/a.Query/B", node.StatusType, refusal, "", codes.NotFound, "no", true},
		"a status before the method ran": {"/a.Query/B", node.UnrunType, refusal, "", codes.NotFound, "no", false},
		"a broken status":                {"/a.Query/B", node.StatusType, broken, "", codes.Internal, "", false},
		"a value of the RPC":             {"/a.Query/B", "", []byte(`"result":{"response":{"code":0,"value":"djE=","height":"7"}}`), "v1", codes.OK, "", true},
		"an empty value of the RPC":      {"/a.Query/B", "", []byte(`"result":{"response":{"code":0,"value":null,"height":"7"}}`), "", codes.OK, "", true},
		"an error of the RPC":            {"/a.Query/B", "", []byte(`"error":{"code":-32603,"message":"Internal error","data":"closed"}`), "", codes.Unknown, "closed", false},
		"an unknown method of a service": {"/a.Query/C", "", []byte(`"result":{"response":{"code":6,"log":"unknown query path: unknown request"}}`), "", codes.Unimplemented, "unknown method C for service a.Query", false},
		"a code that gRPC lacks":         {"/a.Query/B", "", []byte(`"result":{"response":{"code":2,"log":"rpc error: code = Odd desc = x","height":"7","codespace":"a"}}`), "", codes.Unknown, "x", true},
	} {
		message, st, ran := state.Options{Rows: rows}.Response(tt.method, tt.typ, tt.body)
		if string(message) != tt.message || (message != nil) == (st != nil) || st.Code() != tt.want || ran != tt.ran || tt.text != "" && st.Message() != tt.text {
			t.Errorf("%s: Response = %q, %v, %t; want %q, %v %q, %t", name, message, st, ran, tt.message, tt.want, tt.text, tt.ran)
		}
	}
}
