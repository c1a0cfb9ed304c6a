package grpc_test

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
	"github.com/tipcache/tipcache/upstream/protofield"
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

func TestABCIQueryReadsOnlyKeysOfStores(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) { s.web.Limits.Access = []limits.Rule{limits.NewDeny("store/gov/*")} })
	c := d.dial(t)
	method, key := recordedMessage(t, "grpc_tm_ABCIQuery")
	invoke(t.Context(), c, method, key).expectCode(t, codes.OK, "read of a key")
	before := n.requests("")
	const refusal = " is not store/NAME/key; call abci_query of the RPC for other paths"
	naming := func(path string) string { return string(protofield.Append(nil, 2, "/store/acc/key", 2, path)) } // the last path counts
	for message, want := range map[string]string{
		naming("/store/gov/key"):          "access to store/gov/key is denied here",
		naming("/app/simulate"):           refusal,
		naming("store/bank/subspace"):     refusal,
		naming("/store/acc/key") + "\x1b": refusal, // malformed
		"":                                refusal,
	} {
		r := invoke(t.Context(), c, method, hex.EncodeToString([]byte(message)))
		expect.Contains(t, status.Convert(r.err).Message(), want, "error of %q by gRPC", message)
		expect.Contains(t, d.query(t, method, hex.EncodeToString([]byte(message))), want, "error of %q by abci_query", message)
	}
	expect.Equal(t, n.requests("")-before, 0, "node requests")
}

func TestTransactionToDecodeTakesATurn(t *testing.T) {
	d := open(t, newRecordedNode(t), true, func(s *setup) { s.grpc.Posting = blocks.NewPosting(blocks.Posts{Rate: 1e-6, Burst: 1}) })
	c := d.dial(t)
	for i, want := range []codes.Code{codes.Unimplemented, codes.ResourceExhausted} { // the node does not know the method
		invoke(t.Context(), c, "/cosmos.tx.v1beta1.Service/TxDecode", "0a00").expectCode(t, want, "call %d", i+1)
	}
}

func TestSimulationIsSentOnce(t *testing.T) {
	const simulate, message = "/cosmos.tx.v1beta1.Service/Simulate", "0a00"
	nodes := []*recordedNode{newRecordedNode(t), newRecordedNode(t)}
	var endpoints []node.Endpoint
	for _, n := range nodes {
		n.byGRPC[callKey(simulate, message)] = exchange{Trailers: map[string]string{"grpc-status": "14"}}
		endpoints = append(endpoints, node.Endpoint{REST: n.rest.URL, Comet: n.rpc.URL, GRPC: n.addr})
	}
	pool := nodetest.Run(t, node.Options{Endpoints: endpoints}, 746)
	expect.Eventually(t, "the nodes' gRPC is connected", func() bool {
		return !slices.ContainsFunc(pool.Health(), func(h node.Health) bool { return h.GRPC != "ok" || h.Unseen })
	})
	d := open(t, newRecordedNode(t), true, func(s *setup) { s.blocks.Nodes = pool })
	invoke(t.Context(), d.dial(t), simulate, message).expectCode(t, codes.Unavailable, "a simulation that fails")
	sent := 0
	for _, n := range nodes {
		sent += n.requests("gRPC "+simulate) + n.requests("RPC "+simulate)
	}
	expect.Equal(t, sent, 1, "sent simulations")
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
