package rpc_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestCallOfATransactionWaitsForIt(t *testing.T) {
	const hash = "0A0A"
	n := newRecordedNode(t)
	n.setAnswer(`tx{"hash":"`+hash+`"}`, `"result":{"hash":"`+hash+`"}`)
	var waits []string
	var reads sync.WaitGroup
	defer reads.Wait()
	server, _ := newHandler(t, n, rpc.Options{AwaitItem: func(r *web.Request, feed func(*web.Request) (web.Feed, error), access string, values []string) error {
		waits = append(waits, append([]string{access}, values...)...)
		if values[0] == "1h" {
			return failure.BadInput("too long")
		}
		f, err := feed(r)
		reads.Go(func() { _, _, _ = f.Reader.Read(context.Background(), "streams", true) }) // others that wait may need it after this request
		return err
	}})
	for call, tt := range map[string]struct {
		waits []string
		body  string
	}{
		`{"id":1,"method":"tx","params":{"hash":"0A0A","wait":"5s"}}`:                              {[]string{"tx", "5s"}, `"result":{"hash":`},
		`{"id":1,"method":"tx","params":{"hash":"0A0A","wait":5}}`:                                 {[]string{"tx", "5"}, `"result":{"hash":`},
		`{"id":1,"method":"tx","params":{"hash":"0A0A","wait":"1h"}}`:                              {[]string{"tx", "1h"}, `too long`},
		`{"id":1,"method":"tx","params":{"hash":"0A0A"}}`:                                          {nil, `"result":{"hash":`},
		`[{"id":1,"method":"tx","params":{"hash":"0A0A","wait":"5s"}},{"id":2,"method":"health"}]`: {nil, "wait is accepted in a single call"},
	} {
		waits = nil
		_, body := post(t, server.URL, call)
		expect.NoDiff(t, waits, tt.waits, "waits for %s", call)
		expect.Contains(t, body, tt.body, "response to %s", call)
	}
	for _, wait := range []string{"5s", "%225s%22"} {
		waits = nil
		get(t, server.URL+"/tx?hash=0x0A0A&wait="+wait)
		if !slices.Equal(waits, []string{"tx", "5s"}) {
			t.Errorf("waits with %s in a URI = %q, want 5s for tx", wait, waits)
		}
	}
	answer := server.Config.Handler.(*rpc.Handler).Call(httptest.NewRequest(http.MethodGet, "/websocket", nil), "tx", json.RawMessage(`{"hash":"0A0A","wait":"5s"}`))
	expect.Contains(t, string(answer.Member), "wait is accepted in a single call", "answer over a socket")
}
