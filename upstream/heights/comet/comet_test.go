package comet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// serveRecorded answers POST requests with recorded replies from testdata, and GET requests without the JSON-RPC
// envelope, as the nodes of some chains do.
func serveRecorded(w http.ResponseWriter, r *http.Request) {
	var call struct{ Method string }
	method := strings.TrimPrefix(r.URL.Path, "/")
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&call) == nil {
		method = call.Method
	}
	reply, err := os.ReadFile(filepath.Join("testdata", method))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		reply = []byte(gjson.GetBytes(reply, "result").Raw)
	}
	_, _ = w.Write(reply)
}

// newClient returns a client of a node that handle fakes.
func newClient(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	base := expect.Value(url.Parse(server.URL))(t)
	c := New(base, nil, time.Minute, time.Minute, nil, upstream.NewOutage(slog.New(slog.DiscardHandler), "the RPC"))
	t.Cleanup(c.CloseIdle)
	return c
}

func TestRepliesOfARealNodeAreUnderstood(t *testing.T) {
	c := newClient(t, serveRecorded)
	got := expect.Value(c.Status(t.Context()))(t)
	want := Status{ChainID: "story-1001511", Height: 290, Earliest: 1, TxIndex: "off", Version: "0.38.19", Time: time.Date(2026, 11, 20, 11, 38, 19, 89729905, time.UTC)}
	expect.NoDiff(t, got, want, "status")
	if height, err := c.Committed(t.Context()); err != nil || height != 290 {
		t.Errorf("Committed = %d, %v; want 290", height, err)
	}
	if _, err := c.Call(t.Context(), "refused", nil, maxRead); err == nil || !strings.Contains(err.Error(), "Internal error") {
		t.Errorf("Call = %v, want an error with Internal error", err)
	}
}

func TestIsShutdownError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"leveldb: closed": true,
		"could not find consensus params for height 747: leveldb: closed":            true,
		"failed to get commit info: leveldb: closed (latest height: 746): not found": true,
		"no such store: x: leveldb: closed (latest height: : unknown request":        false, // from a request's parameter
		"tx (AA==) not found": false,
	} {
		expect.Equal(t, IsShutdownError(text), want, "IsShutdownError(%q)", text)
	}
}

func TestHashOfABlockComesFromTheNextHeader(t *testing.T) {
	for name, tt := range map[string]struct{ reply, hash, err string }{
		"the next header":           {`{"header":{"height":"8","last_block_id":{"hash":"AB"}}}`, "AB", ""},
		"a header of another block": {`{"header":{"height":"7","last_block_id":{"hash":"AB"}}}`, "", "has no parent hash"},
		"a header in another form":  {`{"header":{"height":"8","last_block_id":{"hash":"AB"},"time":"now"}}`, "", "parsing time"},
		"a header without a hash":   {`{"header":{"height":"8","last_block_id":{"hash":""}}}`, "", "has no parent hash"},
		"no JSON":                   {`}`, "", "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				expect.Equal(t, gjson.GetBytes(body, "params.height").String(), "8", "height of the header")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, gjson.GetBytes(body, "id").Raw, tt.reply)
			})
			hash, err := c.Hash(t.Context(), 7)
			if hash != tt.hash || tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("Hash = %q, %v; want %q and an error with %q", hash, err, tt.hash, tt.err)
			}
		})
	}
}

func TestOnlyRefusalsOfTheNodeItselfEndAnOutage(t *testing.T) {
	for code, failing := range map[int]bool{
		-32700: false, -32600: false, -32601: false, -32602: false, -32603: false, -32000: false,
		-32701: true, -32699: true, -32604: true, -32599: true, -32005: true, -32001: true, 429: true, 0: true,
	} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":-1,"error":{"code":%d,"message":"refused"}}`, code)
		})
		if _, err := c.Call(t.Context(), "status", nil, maxRead); err == nil {
			t.Errorf("Call answered with code %d = nil, want an error", code)
		}
		expect.Equal(t, c.Outage.Failing(), failing, "Failing after code %d", code)
	}
}

func TestReplyHasAResultWithTheIDOrAnError(t *testing.T) {
	for body, valid := range map[string]bool{
		`{"id":1,"result":{}}`: true, `{"id":1,"result":{},"error":null}`: true, `{"id":1,"error":{"code":1}}`: true, `{"id":null,"error":{"code":1}}`: true,
		`{"id":2,"result":{}}`: false, `{"result":{}}`: false, `{"id":1}`: false, `{}`: false, `x`: false,
	} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		reply, err := c.CallRaw(t.Context(), "status", nil, true, maxRead)
		if errors.Is(err, ErrNoReply) == valid || valid && (err != nil || (reply.Error == nil) == (reply.Result == nil)) {
			t.Errorf("CallRaw, answered with %s = %s, %s, %v, want a reply: %t", body, reply.Result, reply.Error, err, valid)
		}
	}
}

func TestParametersThatAreNotJSONAreNotSent(t *testing.T) {
	c := newClient(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t.Errorf("sent %s, want no request", body)
	})
	for _, params := range []string{`{"a":1},"method":"net_info","params":{}`, `{"a":1`, ``} {
		if _, err := c.CallRaw(t.Context(), "abci_query", json.RawMessage(params), true, maxRead); err == nil {
			t.Errorf("CallRaw with the parameters %q = nil, want an error", params)
		}
	}
}

func TestReleasesBefore38HaveNoEvents(t *testing.T) {
	for version, none := range map[string]bool{"0.37.4": true, "v0.34.0": true, "0.38.0": false, "0.39.1": false, "1.0.0": false, "v1.2.3": false, "": false, "x": false, "0": false} {
		if err := noEvents(version); (err != nil) != none {
			t.Errorf("noEvents(%q) = %v, want an error: %t", version, err, none)
		}
	}
}

func TestCallsAreValidJSON(t *testing.T) {
	for want, params := range map[string]any{
		`{"id":1,"jsonrpc":"2.0","method":"a","params":null}`:      json.RawMessage(nil),
		`{"id":1,"jsonrpc":"2.0","method":"a","params":{"b":1}}`:   json.RawMessage(`{"b":1}`),
		`{"id":1,"jsonrpc":"2.0","method":"a","params":{"b":"1"}}`: map[string]string{"b": "1"},
	} {
		expect.Equal(t, string(Request("a", params)), want, "request")
	}
}
