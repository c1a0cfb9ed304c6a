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
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/conn/conntest"
	"github.com/tipcache/tipcache/proxy/web"
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
	s.Listener = conntest.Listener{Listener: s.Listener, Lane: fast, Ended: ended}
	s.Config.ConnContext, s.Config.ConnState = conn.Context, conn.State
	t.Cleanup(s.Close)
	return s
}

// Whatever its length, a body arrives as it is, before the next one.
func TestAnswersOfEveryLengthArriveWhole(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
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
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
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

// A client that asks on and does not read: an answer that could not be sent
// whole ends the connection, and the next does not begin within it.
func TestAnAnswerThatCannotBeSentEndsTheConnection(t *testing.T) {
	t.Parallel()
	p, chain := newChainProxy(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	body := `"` + strings.Repeat("x", 5000) + `"`
	chain.does(func(node.Request) (*node.Answer, error) {
		return &node.Answer{Status: http.StatusOK, Height: standstill, Body: []byte(body)}, nil
	})
	ended := make(chan bool, 1)
	s := httptest.NewUnstartedServer(p)
	s.Listener = conntest.Listener{Listener: s.Listener, Ended: func() { ended <- true }}
	s.Config.ConnContext, s.Config.WriteTimeout = conn.Context, 200*time.Millisecond
	s.Start()
	t.Cleanup(s.Close)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for {
			if _, err := io.WriteString(conn, "GET /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the connection goes on")
	}
	answers := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			return // the end
		}
		if got, err := io.ReadAll(res.Body); err == nil && string(got) != body {
			t.Fatalf("an answer is %.200q", strings.Trim(string(got), "x"))
		}
	}
}

func TestAConnectionSaysThatItEndedOnce(t *testing.T) {
	ended := make(chan bool, 10)
	s := startServer(t, http.NotFoundHandler(), nil, func() { ended <- true })
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s.Client().CloseIdleConnections()
	<-ended
	s.Close()
	if len(ended) > 0 {
		t.Error("a connection ended twice")
	}
}
