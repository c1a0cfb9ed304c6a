package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/probe"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A network has servers in memory, by address, so that a probe runs in virtual time. Requests take no time.
type network map[string]http.Handler

// URLs of servers.
const (
	first  = "http://127.0.0.1:1"
	second = "http://127.0.0.1:2"
	third  = "http://127.0.0.1:3"
	fourth = "http://127.0.0.1:4"
	fifth  = "http://127.0.0.1:5"
	sixth  = "http://127.0.0.1:6"
)

// A pipes listener accepts connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

type connectionKey struct{}

// connectionOf returns the number of a request's connection at its server.
func connectionOf(r *http.Request) int { return r.Context().Value(connectionKey{}).(int) }

// probe runs a probe of the servers in virtual time. dialing is the time to connect.
func (n network) probe(t *testing.T, o probe.Options, dialing time.Duration) (report *probe.Report, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listeners := map[string]*pipes{}
		for url, handler := range n {
			l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
			listeners[url[len("http://"):]] = l
			connections := 0
			server := &http.Server{Handler: handler, ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
				connections++
				return context.WithValue(ctx, connectionKey{}, connections)
			}}
			go server.Serve(l)
			defer server.Close()
		}
		o.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			l := listeners[address]
			if l == nil {
				return nil, errors.New("connection refused")
			}
			time.Sleep(dialing)
			ours, theirs := net.Pipe()
			l.conns <- theirs
			return ours, nil
		}
		report, err = probe.Run(t.Context(), o)
	})
	return report, err
}

// mustProbe is probe for options without errors.
func (n network) mustProbe(t *testing.T, o probe.Options) *probe.Report {
	t.Helper()
	return expect.Value(n.probe(t, o, 0))(t)
}

// blockTime is the time between blocks of a fakeNode. No block comes at the time of a sample.
const blockTime = 2 * time.Second

// A fakeNode is a node of a Cosmos SDK chain.
type fakeNode struct {
	chain  string                                                       // default "chain-1"
	lag    func(r *http.Request) int64                                  // blocks behind the chain; nil means none
	hides  bool                                                         // it does not name blocks
	answer func(w http.ResponseWriter, r *http.Request, height int64)   // nil means the height and the path
	before func(w http.ResponseWriter, r *http.Request) (answered bool) // nil means nothing
}

// newest returns the newest block of the chain.
func newest() int64 {
	elapsed := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) // the time at which virtual time begins
	return 1000 + int64((elapsed+50*time.Millisecond)/blockTime)
}

const (
	heightHeader = "X-Cosmos-Block-Height"
	nodeInfo     = "/cosmos/base/tendermint/v1beta1/node_info"
	poolPath     = "/cosmos/staking/v1beta1/pool"
)

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n.before != nil && n.before(w, r) {
		return
	}
	if r.Method != http.MethodGet || r.URL.Path[:7] != "/cosmos" {
		refuse(w, http.StatusNotImplemented, 12, "Not Implemented")
		return
	}
	if r.URL.Path == nodeInfo {
		chain := n.chain
		if chain == "" {
			chain = "chain-1"
		}
		fmt.Fprintf(w, `{"default_node_info":{"network":%q}}`, chain)
		return
	}
	height := newest()
	if n.lag != nil {
		height -= n.lag(r)
	}
	if pinned, _ := strconv.ParseInt(r.Header.Get(heightHeader), 10, 64); pinned > height {
		refuse(w, http.StatusInternalServerError, 2, "cannot query with height in the future")
		return
	} else if pinned > 0 {
		height = pinned
	}
	if !n.hides {
		w.Header().Set(heightHeader, fmt.Sprint(height))
	}
	if n.answer != nil {
		n.answer(w, r, height)
		return
	}
	fmt.Fprintf(w, `{"pool":{"bonded":"%d","path":%q}}`, height, r.URL.Path)
}

func refuse(w http.ResponseWriter, status, code int, text string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%d,"message":%q,"details":[]}`, code, text)
}

// withLag returns the lag of a node that is always the same number of blocks behind.
func withLag(blocks int64) func(*http.Request) int64 {
	return func(*http.Request) int64 { return blocks }
}

// encode returns the JSON of a report.
func encode(t *testing.T, r *probe.Report) string {
	t.Helper()
	return string(expect.Value(json.MarshalIndent(r, "", "  "))(t))
}

// write returns what a method of a report writes.
func write(t *testing.T, to func(io.Writer) error) string {
	t.Helper()
	var b writer
	expect.NoError(t, to(&b))
	return string(b)
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
