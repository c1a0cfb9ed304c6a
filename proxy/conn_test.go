package proxy_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// startServer wraps connections as tipcache serve does. fast may be nil.
func startServer(t testing.TB, h http.Handler, fast web.Lane) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener = laneListener{s.Listener, fast}
	s.Config.ConnContext, s.Config.ConnState = conn.Context, conn.State
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// laneListener accepts connections with a lane.
type laneListener struct {
	net.Listener
	lane conn.Lane
}

func (l laneListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.New(accepted, l.lane, nil, nil), nil
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
