package grpc_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAccessRulesApplyToMethods(t *testing.T) {
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.web.Limits.Access = []limits.Rule{
			limits.NewDeny("cosmos.bank.*"),
			{Text: "limit 2/h", Patterns: []string{"*.Query/Params"}, Rate: limits.Rate{Requests: 2, Per: time.Hour, Burst: 2}},
		}
	})
	c := d.dial(t)
	r := invoke(t.Context(), c, "/cosmos.bank.v1beta1.Query/Balance", "")
	if got := status.Convert(r.err); got.Code() != codes.PermissionDenied || got.Message() != "access to cosmos.bank.v1beta1.Query/Balance is denied here" {
		t.Errorf("error of a denied method = %v, want PermissionDenied with its name", r.err)
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		invokeAt14(t, c).expectCode(t, want, "call %d of a method with a rate", i+1)
	}
}

func TestMalformedMethodNamesReachNoNode(t *testing.T) {
	for _, byGRPC := range []bool{false, true} {
		n := newRecordedNode(t)
		d := open(t, n, byGRPC)
		before := n.requests("")
		for _, name := range []string{
			`/a/b"},"method":"net_info","params":{"x":"`, `/cosmos.tx.v1beta1.Service/x"`, "/cosmos.tx.v1beta1.Service/x/BroadcastTx",
			"/cosmos.tx.v1beta1.Service/", "/a..b/c", "/a-b/c", "/a",
		} {
			resp := expect.Value(http.Post(d.web.URL+(&url.URL{Path: name}).EscapedPath(), grpc.WebType, strings.NewReader("\x00\x00\x00\x00\x00")))(t)
			resp.Body.Close()
			if got := resp.Header.Get("Grpc-Message"); resp.Header.Get("Grpc-Status") != "12" || !strings.HasPrefix(got, "malformed method name: ") {
				t.Errorf("%s by gRPC-Web: status %s %q, want 12, malformed method name", name, resp.Header.Get("Grpc-Status"), got)
			}
			invoke(t.Context(), d.dial(t), name, "").expectCode(t, codes.Unimplemented, "%s by gRPC", name)
		}
		expect.Equal(t, n.requests("")-before, 0, "node requests, with gRPC: %t", byGRPC)
	}
}

func TestOnlyTheServiceOfTransactionsBroadcastsThem(t *testing.T) {
	n := newRecordedNode(t)
	_, message := recordedMessage(t, "grpc_broadcast_garbage")
	c := open(t, n, false).dial(t)
	for _, name := range []string{"/cosmos.tx.v1.Service/BroadcastTx", "/cosmos.base.node.v1beta1.Service/BroadcastTx"} {
		if r := invoke(t.Context(), c, name, message); r.err == nil {
			t.Errorf("%s = %x, want an error", name, r.message)
		}
	}
	expect.Equal(t, n.requests("RPC broadcast"), 0, "broadcast transactions")
}
