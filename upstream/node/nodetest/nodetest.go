// Package nodetest fakes a node of a chain that has stopped, for tests that replay recorded responses. It answers the
// requests that a pool makes by itself, and reads the recordings.
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

// REST starts the REST server of a Cosmos SDK node whose newest block has a height.
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

// ServeSocket serves a CometBFT WebSocket that acknowledges a subscription and sends no events.
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

// Run runs a pool of Cosmos SDK nodes until the test ends. It returns when the pool knows the height of the chain.
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
			t.Errorf("Run = %v, want nil", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := pool.WaitHeight(ctx, height); err != nil {
		t.Fatal(err)
	}
	return pool
}

// Recorded reads a file with a JSON value per line.
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

// An Exchange is a recorded REST request to a Cosmos SDK node with its response.
type Exchange struct {
	Name                      string // the first word is the kind of request
	Method, Path, Query, Body string
	Headers                   [][2]string
	Status                    int
	Answer                    map[string]string // response headers
	Raw                       string            // response body
	Same                      string            // name of an earlier exchange with the same response body; "" if Raw holds it
	Trimmed                   bool              // a list in the response body was shortened
}

// Exchanges reads a file of exchanges and sets the response bodies that refer to an earlier exchange.
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
