// Package nodetest stands in for a node whose chain stands still, for tests that serve
// recorded answers: what the pool asks a node by itself.
package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/upstream/node"
)

// REST serves the REST interface of a chain of the SDK that stands at a height.
func REST(t testing.TB, height int64) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Grpc-Metadata-Content-Type", "application/grpc")
		w.Header().Set("Grpc-Metadata-X-Cosmos-Block-Height", strconv.FormatInt(height, 10))
		_, _ = io.WriteString(w, `{"params":{}}`)
	}))
	t.Cleanup(server.Close)
	return server
}

// ServeSocket acknowledges a subscription over the WebSocket of CometBFT, in which nothing comes.
func ServeSocket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	if _, _, err := c.Read(r.Context()); err == nil {
		_ = c.Write(r.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		_, _, _ = c.Read(r.Context())
	}
}

// Run runs a pool before a chain of the SDK until the test ends, and waits until the pool knows
// the height at which the chain stands.
func Run(t testing.TB, o node.Options, height int64) *node.Pool {
	t.Helper()
	o.Dialect, o.BlockInterval, o.MaxBlockAge = node.Cosmos, time.Minute, 1e6*time.Hour
	pool, err := node.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(context.Background()) }()
	t.Cleanup(func() {
		_ = pool.Close()
		if err := <-ended; err != nil {
			t.Errorf("the pool ended: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := pool.WaitHeight(ctx, height); err != nil {
		t.Fatal(err)
	}
	return pool
}

// Recorded reads a file of JSON values, one in each line.
func Recorded[T any](t testing.TB, file string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// An Exchange is a request by REST to a node of the SDK and its answer.
type Exchange struct {
	Name                      string // its first word is the kind
	Method, Path, Query, Body string
	Headers                   [][2]string
	Status                    int
	Answer                    map[string]string // the headers
	Raw                       string            // the body
	Same                      string            // the name of an earlier one that has the same body
	Trimmed                   bool              // a list in the body was cut
}

// Exchanges reads a file of them, and fills in the bodies that several share.
func Exchanges(t testing.TB, file string) []Exchange {
	t.Helper()
	all, bodies := Recorded[Exchange](t, file), map[string]string{}
	for i := range all {
		if x := &all[i]; x.Same != "" {
			x.Raw = bodies[x.Same]
		}
		bodies[all[i].Name] = all[i].Raw
	}
	return all
}
