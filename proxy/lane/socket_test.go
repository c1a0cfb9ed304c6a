package lane_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/upstream/expect"
)

// sockets accepts TCP connections for the lane, with small write buffers.
type sockets struct {
	*net.TCPListener
	lane *lane.Lane
}

type narrow struct{ *net.TCPConn }

func (narrow) MarkActive(time.Time) {}

func (s sockets) Accept() (net.Conn, error) {
	c, err := s.AcceptTCP()
	if err != nil {
		return nil, err
	}
	_ = c.SetWriteBuffer(32 << 10)
	return s.lane.NewConn(narrow{c}), nil
}

// startSockets starts a server with such connections. It sends to idle at each StateIdle.
func startSockets(t *testing.T) (s *server, idle <-chan bool, client *net.TCPConn) {
	t.Helper()
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	fast, done := newLane(), make(chan bool, 100)
	s = startServer(t, fast, func(h *http.Server) {
		connState := h.ConnState
		h.ConnState = func(c net.Conn, state http.ConnState) {
			if connState(c, state); state == http.StateIdle {
				done <- true
			}
		}
	})
	go s.http.Serve(sockets{l.(*net.TCPListener), fast})
	conn := expect.Value(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return s, done, conn.(*net.TCPConn)
}

func TestSlowReaderGetsLongResponsesWhole(t *testing.T) {
	t.Parallel()
	s, idle, client := startSockets(t)
	answers := bufio.NewReader(client)
	for _, path := range []string{"/memory/a", "/memory/large", "/memory/larger"} {
		want := ""
		for i := range 10 {
			fmt.Fprintf(client, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
			r := expect.Value(http.ReadResponse(answers, nil))(t)
			body, err := io.ReadAll(r.Body)
			if err != nil || len(body) == 0 {
				t.Fatalf("%s: %d bytes, %v", path, len(body), err)
			}
			if i == 0 {
				want = string(body)
				<-idle // otherwise net/http may get a byte of the next request before it ends this one
			}
			if string(body) != want {
				t.Errorf("%s: response %d has %d bytes, want the same %d as the first", path, i, len(body), len(want))
			}
		}
		expect.Equal(t, s.handled.Swap(0), 1, "%s: requests of 10 that the handler served", path)
	}
}

func TestPipelinedRequestsBeforeHalfCloseAreAnswered(t *testing.T) {
	t.Parallel()
	s, idle, client := startSockets(t)
	answers := bufio.NewReader(client)
	mustRead := func() {
		t.Helper()
		r := expect.Value(http.ReadResponse(answers, nil))(t)
		if body, err := io.ReadAll(r.Body); err != nil || len(body) == 0 {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
	}
	_, _ = io.WriteString(client, getA)
	mustRead()
	<-idle
	_, _ = io.WriteString(client, getA+getA+getA)
	expect.NoError(t, client.CloseWrite())
	_ = client.SetReadDeadline(time.Now().Add(30 * time.Second)) // half the idle timeout
	for range 3 {
		mustRead()
	}
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 || s.handled.Load() != 1 {
		t.Errorf("got %q after the responses, error %v, %d requests handled; want EOF and 1", rest, err, s.handled.Load())
	}
}
