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

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newerNode is a simulated node whose RPC has learned methods. It counts their calls.
type newerNode struct {
	*devnet.Devnet
	*recordedNode

	mu    sync.Mutex
	calls map[string]int
}

func newNewerNode(t *testing.T, methods ...string) *newerNode {
	t.Helper()
	n := &newerNode{Devnet: devnettest.Start(t, devnet.Options{StartHeight: 746, Interval: -1}), calls: map[string]int{}}
	n.recordedNode = &recordedNode{rest: &httptest.Server{URL: n.Node().RESTURL()}, rpc: &httptest.Server{URL: n.Node().CometURL()}}
	for _, name := range methods {
		n.Node().Handle(name, func(w http.ResponseWriter, r *http.Request) {
			n.mu.Lock()
			n.calls[name]++
			n.mu.Unlock()
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			id, said := "-1", fmt.Sprintf("%q", r.URL.RawQuery)
			if len(body) > 0 {
				id, said = gjson.GetBytes(body, "id").Raw, gjson.GetBytes(body, "params").Raw
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"said":%s}}`, id, said)
		})
	}
	return n
}

func (n *newerNode) called(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[name]
}

func TestNamedMethodIsPassedToTheNodeEachTime(t *testing.T) {
	n := newNewerNode(t, "data_commitment")
	server, _ := newHandler(t, n.recordedNode, rpc.Options{Methods: rpc.DefaultMethods})
	for body, want := range map[string]string{
		`{"id":7,"method":"data_commitment","params":{"end":"9","start": "1"}}`: `{"jsonrpc":"2.0","id":7,"result":{"said":{"end":"9","start":"1"}}}`,
		`{"id":"a","method":"data_commitment","params":["1","9"]}`:              `{"jsonrpc":"2.0","id":"a","result":{"said":["1","9"]}}`,
		`{"id":1,"method":"data_commitment"}`:                                   `{"jsonrpc":"2.0","id":1,"result":{"said":{}}}`,
	} {
		for range 2 {
			if resp, got := post(t, server.URL, body); resp.StatusCode != http.StatusOK || strings.ReplaceAll(got, " ", "") != want {
				t.Errorf("%s: %d %s, want %s", body, resp.StatusCode, got, want)
			}
		}
	}
	expect.Equal(t, n.called("data_commitment"), 6, "calls of the node")
	_, got := post(t, server.URL, `[{"id":1,"method":"data_commitment","params":{}},{"id":2,"method":"health","params":{}}]`)
	if !strings.HasPrefix(got, `[{"jsonrpc":"2.0","id":1,"result":{"said":{}}},{"jsonrpc":"2.0","id":2,"result"`) {
		t.Errorf("a batch: %s", got)
	}
	resp := expect.Value(http.Get(server.URL + "/data_commitment?start=1&end=0x09"))(t)
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); string(text) != `{"jsonrpc":"2.0","id":-1,"result":{"said":"start=1&end=0x09"}}` {
		t.Errorf("a URI: %s", text)
	}
}

func TestUnnamedMethodIsRefusedAndLoggedOnce(t *testing.T) {
	n := newNewerNode(t, "secret_method")
	var log bytes.Buffer
	server, _ := newHandler(t, n.recordedNode, rpc.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		if _, got := post(t, server.URL, `{"id":1,"method":"secret_method","params":{}}`); !strings.Contains(got, `"code":-32601`) {
			t.Errorf("%s, want -32601", got)
		}
	}
	for i := range 200 {
		post(t, server.URL, fmt.Sprintf(`{"id":1,"method":"m%d","params":{}}`, i))
	}
	post(t, server.URL, `{"id":1,"method":"a\nb","params":{}}`)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 100 || !strings.Contains(lines[0], "method=secret_method") || !strings.Contains(lines[0], "rpc.methods") {
		t.Errorf("%d lines, the first %s; want 100 that name a method each", len(lines), lines[0])
	}
	expect.Equal(t, n.called("secret_method"), 0, "calls of the node")
}
