package rpc_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// An extendedNode is a simulated node with additional RPC methods. It counts their calls.
type extendedNode struct {
	*devnet.Devnet
	*recordedNode

	mu    sync.Mutex
	calls map[string]int
}

func newExtendedNode(t *testing.T, methods ...string) *extendedNode {
	t.Helper()
	n := &extendedNode{Devnet: devnettest.Start(t, devnet.Options{StartHeight: 746, Interval: -1}), calls: map[string]int{}}
	n.recordedNode = &recordedNode{rest: &httptest.Server{URL: n.Node().RESTURL()}, rpc: &httptest.Server{URL: n.Node().CometURL()}}
	for _, name := range methods {
		n.Node().Handle(name, func(w http.ResponseWriter, r *http.Request) {
			n.mu.Lock()
			n.calls[name]++
			n.mu.Unlock()
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			id, params := "-1", fmt.Sprintf("%q", r.URL.RawQuery)
			if len(body) > 0 {
				id, params = gjson.GetBytes(body, "id").Raw, gjson.GetBytes(body, "params").Raw
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"params":%s}}`, id, params)
		})
	}
	return n
}

func (n *extendedNode) called(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[name]
}

func TestConfiguredMethodIsPassedToNodeEachTime(t *testing.T) {
	n := newExtendedNode(t, "data_commitment")
	server, _ := newHandler(t, n.recordedNode, rpc.Options{Settings: rpc.DefaultSettings()})
	for body, want := range map[string]string{
		`{"id":7,"method":"data_commitment","params":{"end":"9","start": "1"}}`: `{"jsonrpc":"2.0","id":7,"result":{"params":{"end":"9","start":"1"}}}`,
		`{"id":"a","method":"data_commitment","params":["1","9"]}`:              `{"jsonrpc":"2.0","id":"a","result":{"params":["1","9"]}}`,
		`{"id":1,"method":"data_commitment"}`:                                   `{"jsonrpc":"2.0","id":1,"result":{"params":{}}}`,
	} {
		for range 2 {
			if resp, got := post(t, server.URL, body); resp.StatusCode != http.StatusOK || strings.ReplaceAll(got, " ", "") != want {
				t.Errorf("response to %s = %d %s, want 200 %s", body, resp.StatusCode, got, want)
			}
		}
	}
	expect.Equal(t, n.called("data_commitment"), 6, "calls of the node")
	_, got := post(t, server.URL, `[{"id":1,"method":"data_commitment","params":{}},{"id":2,"method":"health","params":{}}]`)
	if !strings.HasPrefix(got, `[{"jsonrpc":"2.0","id":1,"result":{"params":{}}},{"jsonrpc":"2.0","id":2,"result"`) {
		t.Errorf("response to a batch = %s, want the results of both calls", got)
	}
	_, got = get(t, server.URL+"/data_commitment?start=1&end=0x09")
	expect.Equal(t, got, `{"jsonrpc":"2.0","id":-1,"result":{"params":"start=1&end=0x09"}}`, "response to a URI")
}

func TestConfiguredMethodWaitsForTheRequiredBlock(t *testing.T) {
	n := newExtendedNode(t, "data_commitment")
	server, _ := newHandler(t, n.recordedNode, rpc.Options{Settings: rpc.DefaultSettings()})
	for name, r := range map[string]*http.Request{
		"a URI":  httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/data_commitment", nil),
		"a POST": httptest.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(`{"id":1,"method":"data_commitment"}`)),
	} {
		r.RequestURI = ""
		r.Header.Set("X-Min-Block-Height", "747")
		client := http.Client{Timeout: 50 * time.Millisecond}
		if resp, err := client.Do(r); err == nil {
			_ = resp.Body.Close()
			t.Errorf("status of %s that requires the next block = %d, want no response before that", name, resp.StatusCode)
		}
	}
	expect.Equal(t, n.called("data_commitment"), 0, "calls of the node")
}

func TestUnknownMethodIsRefusedAndLoggedOnceAMinute(t *testing.T) {
	n := newExtendedNode(t, "secret_method")
	var log bytes.Buffer
	server, _ := newHandler(t, n.recordedNode, rpc.Options{}, func(o *web.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	post(t, server.URL, `{"id":1,"method":"a\nb","params":{}}`)
	for range 3 {
		_, got := post(t, server.URL, `{"id":1,"method":"secret_method","params":{}}`)
		expect.Contains(t, got, `"code":-32601`, "response")
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], "method=secret_method") || !strings.Contains(lines[0], "rpc.methods") {
		t.Errorf("log lines = %d, the first %s; want one about secret_method", len(lines), lines[0])
	}
	expect.Equal(t, n.called("secret_method"), 0, "calls of the node")
}

func TestPassedURIHasNoSpaces(t *testing.T) {
	n := newExtendedNode(t, "data_commitment")
	server, _ := newHandler(t, n.recordedNode, rpc.Options{Settings: rpc.DefaultSettings()})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/data_commitment", nil)
	r.URL.RawQuery = "start=1 2" // as HTTP/2 permits
	w := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(w, r)
	expect.Response(t, "a URI with a space", w.Code, w.Body.String(), http.StatusOK, `"params":"start=1%202"`)
}
