package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/upstream/expect"
)

// withCalls returns a handler with the call POST /admin/call.
func withCalls(call http.HandlerFunc) *admin.Handler {
	return admin.New(admin.Options{
		Gatherer: prometheus.NewRegistry(), Profiles: true, Calls: map[string]http.HandlerFunc{"POST /admin/call": call},
		Ready: func(context.Context, []string) (bool, any) { return true, nil },
	})
}

// send opens a connection and sends text.
func send(t *testing.T, address, text string) net.Conn {
	t.Helper()
	c := expect.Value(net.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = c.Close() })
	_, _ = io.WriteString(c, text) // fails if the server has closed the connection
	return c
}

// status returns the status of the first response on a connection, 0 if the server closed it.
func status(c net.Conn) int {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	return resp.StatusCode // the body may have no end
}

func TestSlowClientsDoNotBlockHealthAndMetrics(t *testing.T) {
	const head, sized = " HTTP/1.1\r\nHost: 127.0.0.1\r\n", "Content-Length: 1000\r\n\r\nabc"
	for name, text := range map[string]string{
		"calls that do not end":          "POST /admin/call" + head + "\r\n",
		"streams and profiles":           "GET /status/stream" + head + "\r\n",
		"bodies that do not end":         "POST /admin/call" + head + sized,
		"bodies that do not end, health": "POST /healthz" + head + sized,
		"refused bodies that do not end": "POST /status/stream" + head + sized,
		"headers that do not end":        "GET /healthz" + head + "X-A: ",
	} {
		t.Run(name, func(t *testing.T) {
			h := withCalls(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-t.Context().Done()
			})
			address := serve(t, h)
			go h.Run(t.Context())
			for range 200 {
				send(t, address, text)
			}
			client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
			for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
				resp, err := client.Get("http://" + address + path)
				if err != nil {
					t.Fatalf("GET %s: %v", path, err)
				}
				_ = resp.Body.Close()
				expect.Equal(t, resp.StatusCode, http.StatusOK, "status of %s", path)
			}
		})
	}
}

func TestRequestsAtTheSameTimeAreLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		request string
		most    int
	}{
		"streams": {"GET /status/stream", 64},
		"calls":   {"POST /admin/call", 112},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 128)
			h := withCalls(func(_ http.ResponseWriter, r *http.Request) {
				begun <- struct{}{}
				<-r.Context().Done()
			})
			address := serve(t, h)
			go h.Run(t.Context())
			open := func() net.Conn { return send(t, address, tt.request+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") }
			for i := range tt.most {
				if c := open(); name == "calls" {
					<-begun
				} else if got := status(c); got != http.StatusOK {
					t.Fatalf("status of stream %d = %d, want 200", i+1, got)
				}
			}
			expect.Equal(t, status(open()), http.StatusServiceUnavailable, "status of the next request")
		})
	}
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// exchange serves a handler in a synctest bubble. It sends text on a connection, and returns the response until the server
// closes the connection, and the time until then.
func exchange(t *testing.T, h *admin.Handler, text string) (response string, took time.Duration) {
	t.Helper()
	l, server := make(pipes, 1), h.NewServer(nil)
	go func() { _ = server.Serve(l) }()
	client, accepted := net.Pipe()
	l <- accepted
	began := time.Now()
	go func() { _, _ = io.WriteString(client, text) }()
	got, _ := io.ReadAll(client)
	took = time.Since(began)
	close(l)
	_ = server.Close()
	return string(got), took
}

func TestRequestsMustArriveWithinFiveSeconds(t *testing.T) {
	for name, text := range map[string]string{
		"header":               "GET /healthz HTTP/1.1\r\nHost: ",
		"body":                 "POST /admin/call HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nabc",
		"body of a profile":    "POST /debug/pprof/heap HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nabc",
		"body of health check": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nabc",
	} {
		synctest.Test(t, func(t *testing.T) {
			_, took := exchange(t, withCalls(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), text)
			if took < 5*time.Second || took > 6*time.Second {
				t.Errorf("%s: connection closed after %v, want 5 s", name, took)
			}
		})
	}
}

func TestUnreadResponseEndsAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := make(pipes, 1), withCalls(http.NotFound).NewServer(nil)
		go func() { _ = server.Serve(l) }()
		client, accepted := net.Pipe()
		l <- accepted
		expect.Value(io.WriteString(client, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))(t)
		time.Sleep(6 * time.Second)
		if got, err := io.ReadAll(client); err != nil || len(got) > 0 {
			t.Errorf("read after 6 s = %q, %v; want a closed connection", got, err)
		}
		close(l)
		_ = server.Close()
	})
}

func TestLongRequestsOutliveTimeouts(t *testing.T) {
	const tail = " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
	for name, tt := range map[string]struct {
		request string
		took    time.Duration
	}{
		"extended call": {"POST /admin/call", time.Minute},
		"stream":        {"GET /status/stream", time.Minute},
		"heap changes":  {"GET /debug/pprof/heap?seconds=60", time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := withCalls(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := admin.Extend(w, r, 2*time.Minute)
				defer cancel()
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					t.Errorf("call ended early: %v", ctx.Err())
				}
				_, _ = fmt.Fprint(w, "done")
			})
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			go h.Run(ctx)
			time.AfterFunc(time.Minute, func() {
				if name == "stream" {
					h.Close()
				}
			})
			response, took := exchange(t, h, tt.request+tail)
			stop()
			if !strings.HasPrefix(response, "HTTP/1.1 200 ") || took < tt.took || took > tt.took+5*time.Second {
				t.Errorf("%s: %.100q after %v, want a response after %v", name, response, took, tt.took)
			}
		})
	}
}
