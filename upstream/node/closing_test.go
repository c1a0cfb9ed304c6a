package node

import (
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
