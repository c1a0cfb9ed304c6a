package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// startServer serves as serve does, with or without a fast lane.
func startServer(t testing.TB, h http.Handler, fast web.Lane, ended func()) *httptest.Server {
	t.Helper()
	s := unstarted(t, h, fast, ended)
	s.Start()
	return s
}

// unstarted is what startServer starts.
func unstarted(t testing.TB, h http.Handler, fast web.Lane, ended func()) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener = wrapping{s.Listener, fast, ended}
	s.Config.ConnContext, s.Config.ConnState = conn.Context, conn.State
	t.Cleanup(s.Close)
	return s
}

// A wrapping listener accepts connections with a lane, and calls ended when one is closed.
type wrapping struct {
	net.Listener
	lane  conn.Lane
	ended func()
}

func (l wrapping) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.New(accepted, l.lane, nil, l.ended), nil
}

// serveOn starts a server whose connections come from a listener with these options.
func serveOn(t *testing.T, h http.Handler, o listener.Options, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	l := expect.Value(listener.Listen(t.Context(), "127.0.0.1:0", o))(t)
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener, s.Config.ConnContext, s.Config.ConnState, s.Config.WriteTimeout = l, conn.Context, conn.State, time.Minute
	start(s)
	t.Cleanup(s.Close)
	return s
}

// Whatever its length, a body arrives as it is, before the next one.
func TestAnswersOfEveryLengthArriveWhole(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
	var lengths []int
	for _, edge := range []int{0, 1024, 3072, 4096, 2 * 4096, 64 << 10, 1 << 20} {
		for d := -600; d <= 600; d += 200 {
			lengths = append(lengths, max(0, edge+d))
		}
	}
	s.chain.does(func(r node.Request) (*node.Answer, error) {
		var i int
		if _, err := fmt.Sscanf(r.Query, "pagination.limit=%d", &i); err != nil {
			return nil, err
		}
		return &node.Answer{Status: http.StatusOK, Height: standstill, Body: []byte(`"` + strings.Repeat("x", lengths[i]) + `"`)}, nil
	})
	conn := expect.Value(net.Dial("tcp", s.Listener.Addr().String()))(t)
	defer conn.Close()
	go func() { // all at once: they are answered in turn
		for i := range lengths {
			fmt.Fprintf(conn, "GET /staking/validators?pagination.limit=%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
		}
	}()
	answers := bufio.NewReader(conn)
	for i, length := range lengths {
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("answer %d, of %d bytes: %v", i, length, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.ContentLength != int64(length+2) || string(body) != `"`+strings.Repeat("x", length)+`"` {
			t.Fatalf("answer %d: %d bytes of %d, %v", i, len(body), length+2, err)
		}
	}
}
