package node

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// newClosingServer starts a server that closes each connection at its second request, as if it had been idle for too long. It
// counts the requests.
func newClosingServer(t *testing.T) (base *url.URL, requests *atomic.Int64) {
	t.Helper()
	type key struct{}
	requests = new(atomic.Int64)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if seen, _ := r.Context().Value(key{}).(*atomic.Int64); seen.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set(metadataHeader, "100")
		_, _ = io.WriteString(w, `{"id":1,"result":{}}`)
	}))
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, key{}, new(atomic.Int64))
	}
	s.Start()
	t.Cleanup(s.Close)
	return expect.Value(url.Parse(s.URL))(t), requests
}

func TestOnlyReadIsRepeatedAfterTheNodeClosedItsConnection(t *testing.T) {
	t.Parallel()
	params := func(int64) json.RawMessage { return json.RawMessage(`{}`) }
	for name, tt := range map[string]struct {
		Request
		repeated bool
	}{
		"a GET":                 {Request{Path: "/a"}, true},
		"a POST that reads":     {Request{Path: "/a", Post: &Post{Body: []byte("{}"), Reads: true}}, true},
		"a POST that may write": {Request{Path: "/a", Post: &Post{Body: []byte("{}")}}, false},
		"a call that reads":     {Request{Call: &Call{Method: "abci_query", Params: params}}, true},
		"a broadcast":           {Request{Call: &Call{Method: "broadcast_tx_sync", Params: params, Write: true}}, false},
		"an unknown call":       {Request{Call: &Call{Method: "x", Params: params}, Cost: Unknown}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, requests := newClosingServer(t)
			protocol := expect.Value(Cosmos.protocol())(t)
			o := Options{}.WithDefaults()
			e := &endpoint{client: newClient(base, nil, o, protocol), comet: comet.New(base, nil, o.Timeout, time.Minute, nil, nil)}
			fetch := func() error {
				if tt.Call != nil {
					_, err := e.call(t.Context(), tt.Request, 0)
					return err
				}
				_, err := e.client.get(t.Context(), tt.Request, 0)
				return err
			}
			if err := fetch(); err != nil {
				t.Fatal(err)
			}
			if err := fetch(); (err == nil) != tt.repeated {
				t.Errorf("request on the closed connection: error = %v, want an answer: %t", err, tt.repeated)
			}
			want := int64(2)
			if tt.repeated {
				want = 3
			}
			expect.Equal(t, requests.Load(), want, "requests")
		})
	}
}

func TestErrorSaysThatATransactionMayHaveRun(t *testing.T) {
	t.Parallel()
	params := func(int64) json.RawMessage { return json.RawMessage(`{}`) }
	broadcast := Request{Call: &Call{Method: "broadcast_tx_sync", Params: params, Write: true}, Height: AtTip, Unpinned: true}
	for name, tt := range map[string]struct {
		request Request
		front   http.HandlerFunc
		want    bool
	}{
		"no reply":           {broadcast, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"a gateway's error":  {broadcast, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, true},
		"no reply to a read": {Request{Call: &Call{Method: "status", Params: params}, Height: AtTip, Unpinned: true}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		"a refusal by another server": {broadcast, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"id":1,"error":{"code":429,"message":"slow down"}}`)
		}, false},
		"a server that got no response from the node": {broadcast, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, `{"id":1,"error":{"code":-32000,"message":"timeout"}}`)
		}, true},
	} {
		n := newFakeNode(t, 100)
		p := run(t, Options{}, n)
		waitForProbes(t, p)
		n.change(func() { n.front, n.frontRPC = tt.front, true })
		_, err := p.Fetch(within(t, time.Minute), tt.request)
		if err == nil || upstream.MayHaveRun(err) != tt.want {
			t.Errorf("%s: error = %v, which may have run: %t; want %t", name, err, upstream.MayHaveRun(err), tt.want)
		}
	}
}

// newLimitedServer starts a server that refuses bodies above a million bytes, as nodes do, with an error in its form.
func newLimitedServer(t *testing.T, refusal string) *url.URL {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1e6)); err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, refusal)
		}
	}))
	t.Cleanup(s.Close)
	return expect.Value(url.Parse(s.URL))(t)
}

func TestBodyAboveTheLimitOfTheNodeIsRefusedByIt(t *testing.T) {
	t.Parallel()
	long, o := bytes.Repeat([]byte("A"), 2e6), Options{}.WithDefaults()
	base := newLimitedServer(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request","data":"error reading request body: http: request body too large"}}`)
	e := &endpoint{comet: comet.New(base, nil, o.Timeout, time.Minute, nil, nil), client: newClient(base, nil, o, expect.Value(Cosmos.protocol())(t))}
	params := func(int64) json.RawMessage { return json.RawMessage(`{"tx":"` + string(long) + `"}`) }
	a, err := e.call(t.Context(), Request{Call: &Call{Method: "broadcast_tx_sync", Params: params, Write: true}}, 0)
	if err != nil || a.Reason != BadInput {
		t.Errorf("call = %+v, %v; want a refusal", a, err)
	}
	const want = `{"code":3,"message":"http: request body too large","details":[]}`
	for _, refusal := range []string{want, "http: request body too large\n"} {
		c := newClient(newLimitedServer(t, refusal), nil, o, expect.Value(Cosmos.protocol())(t))
		a, err = c.get(t.Context(), Request{Path: "/cosmos/tx/v1beta1/txs", Post: &Post{Body: long}}, 0)
		if err != nil || a.Reason != BadInput || a.NodeStatus != http.StatusBadRequest || string(a.Body) != want {
			t.Errorf("POST = %+v, %v; want a refusal with status 400", a, err)
		}
	}
}
