package rpc_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

const (
	paramsCall = `{"jsonrpc":"2.0","id":7,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params"}}`
	paramsKey  = `abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`
)

func TestGatewayErrorsArePassedOnAndNotCached(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, tt := range map[string]struct{ member, want string }{
		"a rate limit":            {`"error":{"code":-32005,"message":"rate limit exceeded"}`, `"error":{"code":-32005,"message":"rate limit exceeded"}`},
		"a long text":             {`"error":{"code":-32005,"message":"` + long + `"}`, `"error":{"code":-32005,"message":"` + long[:256] + `"}`},
		"an unknown server error": {`"error":{"code":-32000,"message":"upstream gone"}`, `"error":{"code":-32000,"message":"upstream gone"}`},
		"an unknown failure":      {`"error":{"code":-32603,"message":"Internal error","data":"disk full"}`, `"error":{"code":-32603,"message":"Internal error","data":"disk full"}`},
		"an HTTP code":            {`"error":{"code":429,"message":"slow down"}`, `"error":{"code":429,"message":"slow down"}`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRecordedNode(t)
			server, _ := newHandler(t, n, rpc.Options{})
			n.setAnswer(paramsKey, tt.member)
			resp, body := post(t, server.URL, paramsCall)
			expect.Equal(t, body, `{"jsonrpc":"2.0","id":7,`+tt.want+`}`, "response to a POST with status %d", resp.StatusCode)
			expect.Equal(t, resp.StatusCode, http.StatusOK, "status of a POST")
			resp, body = get(t, server.URL+`/abci_query?path="/cosmos.staking.v1beta1.Query/Params"`)
			expect.Response(t, "a URI", resp.StatusCode, body, http.StatusInternalServerError, tt.want)
			n.recordParams()
			_, body = post(t, server.URL, paramsCall)
			expect.Contains(t, body, `"value":"Cg=="`, "response after the gateway's error")
		})
	}
}

func TestGatewayErrorIsCountedAndLoggedAsFailure(t *testing.T) {
	for name, call := range map[string]func(t *testing.T, server *httptest.Server) string{
		"over a socket": func(t *testing.T, server *httptest.Server) string {
			upgrade := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/websocket", nil)
			answer := server.Config.Handler.(*rpc.Handler).Call(upgrade, "abci_query", json.RawMessage(`{"path":"/cosmos.staking.v1beta1.Query/Params"}`))
			return string(answer.Member)
		},
		"by POST": func(t *testing.T, server *httptest.Server) string {
			_, body := post(t, server.URL, paramsCall)
			return body
		},
		"in a batch": func(t *testing.T, server *httptest.Server) string {
			_, body := post(t, server.URL, "["+paramsCall+`,{"id":8,"method":"block","params":{"height":"14"}}]`)
			return body
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRecordedNode(t)
			log := new(logtest.Log)
			server, metrics := newHandler(t, n, rpc.Options{}, func(o *web.Options) {
				o.Record.AccessLog, o.Logger = log, slog.New(slog.NewTextHandler(io.Discard, nil))
			})
			n.setAnswer(paramsKey, `"error":{"code":-32005,"message":"rate limit exceeded"}`)
			expect.Contains(t, call(t, server), `"error":{"code":-32005,"message":"rate limit exceeded"}`, "answer")
			server.Close() // waits until the request is logged
			expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "502", "server"), 1, "requests counted as failed")
			for _, want := range []string{`"level":"ERROR"`, `"status":502`, `"error":"`, "rate limit exceeded"} {
				expect.Contains(t, log.String(), want, "access log")
			}
		})
	}
}

func TestGatewayErrorsDoNotReplaceCachedValues(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	n.setAnswer("status", `"error":{"code":-32005,"message":"rate limit exceeded"}`)
	n.setAnswer("block", `"result":{"block_id":{}}`)
	call := `{"jsonrpc":"2.0","id":7,"method":"block","params":{}}`
	_, before := post(t, server.URL, call)
	n.setAnswer("block", `"error":{"code":-32005,"message":"rate limit exceeded"}`)
	for range 3 {
		_, body := post(t, server.URL, call)
		expect.Equal(t, body, before, "response")
	}
}

func TestNodesRefusalOfParametersIsNoFailureOfTheServer(t *testing.T) {
	n := newRecordedNode(t)
	server, metrics := newHandler(t, n, rpc.Options{})
	const member = `"error":{"code":-32603,"message":"Internal error","data":"transaction hash cannot be empty"}`
	for _, key := range []string{"tx", "tx{}", `tx{"hash":""}`} {
		n.setAnswer(key, member)
	}
	for _, params := range []string{"{}", `{"hash":""}`, `{"hash":null}`} {
		resp, body := post(t, server.URL, `{"id":7,"method":"tx","params":`+params+"}")
		expect.Response(t, "tx with "+params, resp.StatusCode, body, http.StatusOK, `{"jsonrpc":"2.0","id":7,`+member+"}")
	}
	resp, body := get(t, server.URL+"/tx")
	expect.Response(t, "/tx", resp.StatusCode, body, http.StatusInternalServerError, member)
	server.Close() // waits until the requests are counted
	expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "server"), 0, "requests counted as failures of the server")
}
