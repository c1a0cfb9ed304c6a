package rpc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestTransactionsAndSimulationsShareRateOfPosts(t *testing.T) {
	for _, call := range []string{
		`{"id":%d,"method":"broadcast_tx_sync","params":{"tx":"AA=="}}`,
		`{"id":%d,"method":"broadcast_tx_commit","params":{"tx":"AA=="}}`,
		`{"id":%d,"method":"check_tx","params":{"tx":"AA=="}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"/cosmos.tx.v1beta1.Service/Simulate","data":"0a00"}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"/cosmos.tx.v1beta1.Service/TxDecode","data":"0a00"}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"/app/simulate","data":"0a00"}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"app/simulate/","data":"0a00"}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"/app/simulate","data":"0a00","height":"-0"}}`, // the node reads it as 0
	} {
		t.Run(call, func(t *testing.T) {
			n := newRecordedNode(t)
			n.recordParams()
			server, _ := newHandler(t, n, rpc.Options{Posting: blocks.NewPosting(blocks.Posts{Rate: 0.001, Burst: 2})})
			method := gjson.Get(fmt.Sprintf(call, 0), "method").String()
			for id := range 4 {
				_, body := post(t, server.URL, fmt.Sprintf(call, id))
				if refused := strings.Contains(body, "too many transactions are sent through this server at present"); refused != (id >= 2) {
					t.Errorf("response to post %d = %s, want a refusal: %t", id, body, id >= 2)
				}
			}
			expect.Equal(t, n.countCalls(method), 2, "posts to the node")
			_, body := post(t, server.URL, fmt.Sprintf(paramsCalls[0], "5"))
			expect.Contains(t, body, `"result"`, "response to a read")
		})
	}
}

func TestBodyIsLimitedToConfiguredSize(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	const most = 1 << 20 // less than the default
	server, _ := newHandler(t, n, rpc.Options{Posting: blocks.NewPosting(blocks.Posts{MaxBody: most})})
	for size, want := range map[int]int{most: http.StatusOK, most + 1: http.StatusRequestEntityTooLarge} {
		const call = `{"id":1,"method":"broadcast_tx_sync","params":{"tx":"%s"}}`
		resp, body := post(t, server.URL, fmt.Sprintf(call, strings.Repeat("A", size-len(call)+len("%s"))))
		if resp.StatusCode != want || want != http.StatusOK && !strings.Contains(body, "the body is larger than 1048576 bytes") {
			t.Errorf("response to a body of %d bytes = %d %.200s, want %d", size, resp.StatusCode, body, want)
		}
	}
	expect.Equal(t, n.countCalls("broadcast_tx_sync"), 1, "transactions sent to the node")
}

func TestBodyForAnUnknownMethodIsNotRead(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{Posting: blocks.NewPosting(blocks.Posts{MaxBody: 1 << 20})})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/nope", strings.NewReader(strings.Repeat("A", 2<<20)))
	w := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(w, r)
	expect.Response(t, "a large body for an unknown method", w.Code, w.Body.String(), http.StatusNotFound, "404 page not found")
}

func TestFormIsLimitedLikeOtherBodies(t *testing.T) {
	const most = 1 << 20
	c := expect.Value(cache.New(cache.Options{MemoryBytes: 16 << 20}))(t)
	defer c.Close()
	server, _ := newHandlerWith(t, c, newRecordedNode(t), rpc.Options{Posting: blocks.NewPosting(blocks.Posts{MaxBody: most})})
	send := func(size, wantStatus int, want string) {
		t.Helper()
		const form = "height=5&x="
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/header", strings.NewReader(form+strings.Repeat("A", size-len(form))))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(w, r)
		expect.Response(t, fmt.Sprintf("a form of %d bytes", size), w.Code, w.Body.String(), wantStatus, want)
	}
	send(most, http.StatusOK, `"height":"5"`)
	send(most+1, http.StatusRequestEntityTooLarge, "the body is larger than 1048576 bytes")
	used := c.Account().Limit() - most/2
	expect.Equal(t, c.Account().Reserve(account.Upstream, used), true, "Reserve of %d bytes", used)
	send(most, http.StatusServiceUnavailable, "too many request bodies are being processed")
	expect.Equal(t, c.Account().Used(), used, "Used at the end")
}

func TestRetriedWebSocketCallCountsOnce(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	server, metrics := newHandler(t, n, rpc.Options{}, func(o *web.Options) {
		o.Limits.Address = limits.Rate{Requests: 1, Per: time.Hour, Burst: 1}
	})
	d := server.Config.Handler.(*rpc.Handler)
	upgrade := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/websocket", nil)
	call := func() socket.Answer {
		return d.Call(upgrade, "abci_query", json.RawMessage(`{"path":"/cosmos.staking.v1beta1.Query/Params"}`))
	}
	first := call()
	if jsonrpc.IsError(first.Member) || first.Again == nil {
		t.Fatalf("first call = %s, can be repeated: %t; want a result that can be repeated", first.Member, first.Again != nil)
	}
	if again := first.Again(); string(again.Member) != string(first.Member) || again.Height != first.Height {
		t.Errorf("repeated call = %s at %d, want %s at %d", again.Member, again.Height, first.Member, first.Height)
	}
	expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total"), 1, "counted requests")
	if second := call(); !jsonrpc.IsError(second.Member) || second.Again != nil {
		t.Errorf("second call = %s, want a refusal", second.Member)
	}
}

func TestRefusedRequestGetsItsID(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{}, func(o *web.Options) {
		o.Limits.Address = limits.Rate{Requests: 1, Per: time.Hour, Burst: 1}
	})
	get(t, server.URL+"/health")
	for body, id := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"health"}`: "7", `{"id":"a<","method":"health"}`: `"a\u003c"`, `{"id":7,"method":"health"`: "-1", `{"method":"health"}`: "-1",
		`[{"id":7,"method":"health"},{"id":8,"method":"health"}]`: "-1", `{"id":7,"method":"health","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`: "-1",
	} {
		resp, answer := post(t, server.URL, body)
		expect.Response(t, fmt.Sprintf("%.60s", body), resp.StatusCode, answer, http.StatusTooManyRequests, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32000,`)
	}
}

func TestCallWithInvalidHeightGetsItsID(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"id":7,"method":"health"}`))
	r.Header.Set("X-Block-Height", "x")
	w := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(w, r)
	expect.Response(t, "a call with an invalid height", w.Code, w.Body.String(), http.StatusBadRequest, `"id":7,`)
}
