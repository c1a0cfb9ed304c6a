package rpc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// denyRules replaces the access rules of a handler by one that denies patterns.
func TestCallOfExecutionClientSaysWhatIsServed(t *testing.T) {
	const hint = `"error":{"code":-32601,"message":"Method not found","data":"eth_blockNumber is a method of execution clients, and this address has the RPC of CometBFT"}}`
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`: `{"jsonrpc":"2.0","id":1,` + hint,
		`[{"id":1,"method":"eth_blockNumber"},{"id":2,"method":"nope"}]`:  `[{"jsonrpc":"2.0","id":1,` + hint + `,{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}]`,
	} {
		_, got := post(t, server.URL, body)
		expect.Equal(t, got, want, "response to %s", body)
	}
}

func denyRules(patterns ...string) func(*web.Options) {
	return func(o *web.Options) { o.Limits = limits.Limits{Access: []limits.Rule{limits.NewDeny(patterns...)}} }
}

func TestMethodsAboutTheNodeAreDeniedByDefault(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{}, func(o *web.Options) { o.Limits = limits.Limits{} })
	const denied = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found","data":"access to net_info is denied here"}}`
	call := `{"id":1,"method":"net_info","params":{}}`
	if resp, body := post(t, server.URL, call); resp.StatusCode != http.StatusOK || body != denied {
		t.Errorf("POST = %d %s, want 200 %s", resp.StatusCode, body, denied)
	}
	if _, body := post(t, server.URL, "["+call+`,{"id":2,"method":"health","params":{}}]`); !strings.HasPrefix(body, "["+denied+`,{"jsonrpc":"2.0","id":2,"result"`) {
		t.Errorf("a batch = %s, want the error and a result", body)
	}
	for path, want := range map[string]int{"/net_info": http.StatusForbidden, "/health": http.StatusOK, "/": http.StatusOK} {
		resp, body := get(t, server.URL+path)
		if resp.StatusCode != want || path == "/" && strings.Contains(body, "net_info") {
			t.Errorf("%s = %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
}

func TestDeniedGRPCMethodCannotBeCalledByABCIQuery(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{}, denyRules("cosmos.bank.*", "store/acc/*", "app/simulate"))
	for params, want := range map[string]string{
		`{"path":"/cosmos.bank.v1beta1.Query/Params","data":""}`:       "access to cosmos.bank.v1beta1.Query/Params is denied here",
		`["/cosmos.bank.v1beta1.Query/Params","","0",false]`:           "access to cosmos.bank.v1beta1.Query/Params is denied here",
		`{"path":"/store/acc/key","data":"01"}`:                        "access to store/acc/key is denied here",
		`{"path":"/app/simulate/x","data":""}`:                         "access to app/simulate is denied here",
		`{"path":7,"data":""}`:                                         "the parameters of abci_query cannot be read",
		`{"PATH":"/cosmos.bank.v1beta1.Query/Params","data":{"a":[]}}`: "the parameters of abci_query cannot be read",
	} {
		_, body := post(t, server.URL, `{"id":1,"method":"abci_query","params":`+params+`}`)
		expect.Contains(t, body, want, "response to params %s", params)
	}
}

func TestPageOfMethodsRepeatsNoHostThatIsNone(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	for host, want := range map[string]string{"h.example:1": `<a href="//h.example:1/health?">//h.example:1/health?</a>`, strings.Repeat("&", 5000): `<a href="/health?">/health?</a>`} {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil))(t)
		r.Host = host
		resp := expect.Value(server.Client().Do(r))(t)
		body := string(expect.Value(io.ReadAll(resp.Body))(t))
		resp.Body.Close()
		expect.Contains(t, body, want, "page for the host %.20s", host)
	}
}

// A node would read the second path of the first URI if the text was sent as it is.
func TestTextOfURIThatIsNotOneJSONStringIsRefused(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{}, denyRules("cosmos.bank.*"))
	for _, text := range []string{`"/x","path":"/cosmos.bank.v1beta1.Query/Params"`, `"`, `"/x`} {
		resp, body := get(t, server.URL+"/abci_query?path="+url.QueryEscape(text))
		expect.Response(t, text, resp.StatusCode, body, http.StatusBadRequest, "the parameters of abci_query cannot be read")
	}
	expect.Equal(t, n.countCalls("abci_query"), 0, "node requests")
}

func TestDeniedSubscriptionIsRefused(t *testing.T) {
	server, metrics := newHandler(t, newRecordedNode(t), rpc.Options{}, denyRules("subscribe"))
	handler := server.Config.Handler.(*rpc.Handler)
	for method, want := range map[string]string{
		"subscribe":   `"error":{"code":-32601,"message":"Method not found","data":"access to subscribe is denied here"}`,
		"unsubscribe": "",
	} {
		answered := false
		refusal := handler.Subscription(httptest.NewRequest(http.MethodGet, "/websocket", nil), method, func() int { answered = true; return 1 })
		expect.Equal(t, string(refusal), want, "refusal of %s", method)
		expect.Equal(t, answered, want == "", "whether %s was answered", method)
		expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "rpc "+method), 1, "counted requests of %s", method)
	}
}

func TestKeysOfAMethodAreSelected(t *testing.T) {
	for route, want := range map[string]int{"rpc block": 1, "rpc abci_query": 2, "block": 0, "rpc x": 0, "rpc broadcast_tx_sync": 0} {
		if all, ok := rpc.Select(route); len(all) != want || ok != (want > 0) {
			t.Errorf("Select(%s) = %v, %t, want %d selections", route, all, ok, want)
		}
	}
	for name, want := range map[string]bool{"block": true, "passed": true, "subscribe": true, "unsubscribe": true, "unsubscribe_all": true, "x": false} {
		expect.Equal(t, rpc.HasMethod(name, []string{"passed"}), want, "HasMethod(%s)", name)
	}
}
