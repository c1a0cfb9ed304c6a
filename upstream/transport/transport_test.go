package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

const patience = time.Minute // longer than any step of a test takes

func newTransport(t testing.TB, base string, idle time.Duration) *Transport {
	t.Helper()
	u := expect.Value(url.Parse(base))(t)
	tr := New(u, Options{Dial: patience, Idle: idle, MaxIdle: 4})
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// send makes a request and reads the response whole.
func send(ctx context.Context, tr http.RoundTripper, method, target, body string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := tr.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return response.StatusCode, string(read), err
}

func mustSend(t testing.TB, tr http.RoundTripper, method, target, body, want string) {
	t.Helper()
	status, text, err := send(t.Context(), tr, method, target, body)
	if err != nil || status != http.StatusOK || text != want {
		t.Fatalf("%s %s: status %d, body %.40q, error %v; want 200, %.40q", method, target, status, text, err, want)
	}
}

// closeUnread sends a request and closes the body of its response without reading it.
func closeUnread(t *testing.T, tr http.RoundTripper, target string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))(t)
	response := expect.Value(tr.RoundTrip(r))(t)
	_ = response.Body.Close()
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+string(body))
}

// listen starts a server that answers each request of a connection with the next text, and closes the
// connection after the last one. It counts the connections.
func listen(t *testing.T, answers ...string) (base string, conns *atomic.Int64) {
	t.Helper()
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	conns = new(atomic.Int64)
	serve := func(c net.Conn) {
		defer c.Close()
		buf := make([]byte, 64<<10)
		for _, answer := range answers {
			if _, err := c.Read(buf); err != nil {
				return
			}
			_, _ = io.WriteString(c, answer)
		}
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			conns.Add(1)
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String(), conns
}

func TestRequestsShareAConnection(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/chunked":
					_, _ = io.WriteString(w, "in ")
					_ = http.NewResponseController(w).Flush()
					_, _ = io.WriteString(w, "chunks")
				case "/interim":
					w.WriteHeader(http.StatusEarlyHints)
					echo(w, r)
				case "/empty":
				default:
					echo(w, r)
				}
			}))
			var conns atomic.Int64
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
			t.Cleanup(s.Close)
			tr := newTransport(t, s.URL, patience)
			if secure {
				tr.tls.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:forcetypeassert // of httptest
			}
			for range 3 {
				mustSend(t, tr, http.MethodGet, s.URL+"/a", "", "GET /a ")
				mustSend(t, tr, http.MethodPost, s.URL+"/b", "body", "POST /b body")
				mustSend(t, tr, http.MethodGet, s.URL+"/chunked", "", "in chunks")
				mustSend(t, tr, http.MethodGet, s.URL+"/interim", "", "GET /interim ")
				mustSend(t, tr, http.MethodGet, s.URL+"/empty", "", "")
				closeUnread(t, tr, s.URL+"/empty")
			}
			expect.Equal(t, conns.Load(), 1, "connections for requests in turn")
		})
	}
}

func TestUnverifiedCertificateRefused(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	if _, _, err := send(t.Context(), newTransport(t, s.URL, patience), http.MethodGet, s.URL, ""); err == nil {
		t.Error("unknown certificate: error = nil, want one")
	}
}

func TestLongRequestBodySent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(s.Close)
	body := strings.Repeat("x", 4<<20)
	mustSend(t, newTransport(t, s.URL, patience), http.MethodPost, s.URL+"/", body, "POST / "+body)
}

func TestResponseBodyMayBeLongerThanItsHead(t *testing.T) {
	body := strings.Repeat("x", 64<<10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	t.Cleanup(s.Close)
	mustSend(t, newTransport(t, s.URL, patience), http.MethodGet, s.URL, "", body)
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// A node that restarts closes its connections.
func TestConnectionClosedByTheServerIsReplaced(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		base, conns := listen(t, ok)
		tr := newTransport(t, base, patience)
		for i := range int64(3) {
			mustSend(t, tr, method, base, "", "ok")
			for !closedByServer(tr) {
				time.Sleep(time.Millisecond)
			}
			if n := conns.Load(); n != i+1 {
				t.Errorf("%s: %d connections after %d requests", method, n, i+1)
			}
		}
	}
}

// closedByServer reports whether the server has closed the idle connection of a transport.
func closedByServer(tr *Transport) bool {
	tr.idle.mu.Lock()
	defer tr.idle.mu.Unlock()
	return !tr.idle.conns[0].probe.isOpen()
}

// A server may close the connection when the request is already on its way.
func TestOnlyReadIsSentAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		method, body string
		marked       bool
		conns        int64
	}{
		"GET":                                 {http.MethodGet, "", false, 2},
		"POST that reads":                     {http.MethodPost, "body", true, 2},
		"long POST that reads":                {http.MethodPost, strings.Repeat("x", maxSent+1), true, 2},
		"POST that may change something":      {http.MethodPost, "body", false, 1},
		"long POST that may change something": {http.MethodPost, strings.Repeat("x", maxSent+1), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if seen, _ := r.Context().Value(requests).(*atomic.Int64); seen.Add(1) > 1 {
					panic(http.ErrAbortHandler) // the second request of a connection
				}
				echo(w, r)
			}))
			s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
				conns.Add(1)
				return context.WithValue(ctx, requests, new(atomic.Int64))
			}
			s.Start()
			t.Cleanup(s.Close)
			tr := newTransport(t, s.URL, patience)
			do := func() (string, error) {
				r := expect.Value(http.NewRequestWithContext(t.Context(), tt.method, s.URL+"/", strings.NewReader(tt.body)))(t)
				if tt.marked {
					upstream.MarkRepeatable(r)
				}
				response, err := tr.RoundTrip(r)
				if err != nil {
					return "", err
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				return string(text), err
			}
			want := tt.method + " / " + tt.body
			if text, err := do(); err != nil || text != want {
				t.Fatalf("first request = %.40q, %v; want %.40q", text, err, want)
			}
			text, err := do()
			if repeated := tt.conns > 1; (err == nil) != repeated || repeated && text != want {
				t.Errorf("request on a connection that the server closes = %.40q, %v; want an answer: %t", text, err, repeated)
			}
			expect.Equal(t, conns.Load(), tt.conns, "connections")
		})
	}
}

type contextKey string

// requests is the key of the number of requests of a connection.
const requests contextKey = "requests"

// A request may make the server close its connection.
func TestGETIsSentAgainOnce(t *testing.T) {
	const parallel = 4
	var all sync.WaitGroup
	arrived := make(chan struct{}, parallel)
	answer := make(chan struct{})
	var aborted atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort" {
			aborted.Add(1)
			panic(http.ErrAbortHandler)
		}
		arrived <- struct{}{}
		<-answer
	}))
	t.Cleanup(s.Close)
	tr := newTransport(t, s.URL, patience)
	for range parallel {
		all.Go(func() { _, _, _ = send(t.Context(), tr, http.MethodGet, s.URL+"/", "") })
	}
	for range parallel {
		<-arrived
	}
	close(answer)
	all.Wait() // the connections are idle
	if _, _, err := send(t.Context(), tr, http.MethodGet, s.URL+"/abort", ""); err == nil {
		t.Error("GET that the server aborts: error = nil, want one")
	}
	expect.Equal(t, aborted.Load(), 2, "requests")
}

func TestConnectionThatCannotBeReusedIsClosed(t *testing.T) {
	for name, answer := range map[string]string{
		"the server says so":       "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"an older protocol":        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"bytes after the response": ok + "HTTP/1.1 500 Smuggled\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			base, conns := listen(t, answer, answer)
			tr := newTransport(t, base, patience)
			mustSend(t, tr, http.MethodGet, base, "", "ok")
			mustSend(t, tr, http.MethodGet, base, "", "ok")
			expect.Equal(t, conns.Load(), 2, "connections for two requests")
		})
	}
}

func TestBodyClosedEarlyClosesTheConnection(t *testing.T) {
	left := make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the client has left
		left <- struct{}{}
	}))
	defer server.Close()
	tr := newTransport(t, server.URL, patience)
	for range 2 {
		closeUnread(t, tr, server.URL)
		<-left
	}
}

func TestBodyClosedBeforeItArrivesClosesTheConnection(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	base, conns := listen(t, head, head)
	tr := newTransport(t, base, patience)
	closeUnread(t, tr, base)
	closeUnread(t, tr, base)
	expect.Equal(t, conns.Load(), 2, "connections for two requests")
}

func TestBodyClosedBetweenChunksClosesTheConnection(t *testing.T) {
	const chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
	base, conns := listen(t, chunk, chunk)
	tr := newTransport(t, base, patience)
	for range 2 {
		request := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil))(t)
		response := expect.Value(tr.RoundTrip(request))(t)
		expect.Value(io.ReadFull(response.Body, make([]byte, 2)))(t)
		expect.NoError(t, response.Body.Close())
	}
	expect.Equal(t, conns.Load(), 2, "connections for two requests")
}

func TestFaultyResponsesAreErrors(t *testing.T) {
	for name, answer := range map[string]string{
		"head too long":             "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 65<<10) + "\r\n\r\n",
		"interim responses forever": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100),
		"not HTTP":                  "SSH-2.0-OpenSSH\r\n",
		"nothing":                   "",
		"body cut":                  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
		"chunk cut":                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			base, _ := listen(t, answer)
			tr := newTransport(t, base, patience)
			if status, text, err := send(t.Context(), tr, http.MethodGet, base, ""); err == nil {
				t.Errorf("status %d, body %q; want an error", status, text)
			}
			if len(tr.idle.conns) != 0 {
				t.Error("connection still open, want it closed")
			}
		})
	}
}

func TestSwitchToAnotherProtocolKeepsNoConnection(t *testing.T) {
	base, conns := listen(t, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", ok)
	tr := newTransport(t, base, patience)
	for range 2 {
		if status, _, err := send(t.Context(), tr, http.MethodGet, base, ""); err != nil || status != http.StatusSwitchingProtocols {
			t.Fatalf("status %d, error %v; want 101", status, err)
		}
	}
	expect.Equal(t, conns.Load(), 2, "connections")
}

func TestEndOfTheContextEndsTheRequest(t *testing.T) {
	for name, head := range map[string]string{
		"before the head": "",
		"in the body":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c, _, err := w.(http.Hijacker).Hijack() //nolint:forcetypeassert // of net/http
				if err != nil {
					panic(err)
				}
				defer c.Close()
				_, _ = io.WriteString(c, head)
				arrived <- struct{}{}
				_, _ = c.Read(make([]byte, 1)) // the client closes
				arrived <- struct{}{}
			}))
			t.Cleanup(s.Close)
			tr := newTransport(t, s.URL, patience)
			end := func(ctx context.Context, meanwhile func(), want error) {
				t.Helper()
				go func() { <-arrived; meanwhile() }()
				if _, _, err := send(ctx, tr, http.MethodGet, s.URL, ""); !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
				<-arrived
			}
			ctx, cancel := context.WithCancel(t.Context())
			end(ctx, cancel, context.Canceled)
			ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			end(ctx, func() {}, context.DeadlineExceeded)

			life, cancel := context.WithCancel(t.Context())
			end(lazy(upstream.Detach(t.Context(), life), patience), cancel, context.Canceled)
			end(lazy(t.Context(), 10*time.Millisecond), func() {}, context.DeadlineExceeded)
			end(lazy(lazy(t.Context(), 10*time.Millisecond), patience), func() {}, context.DeadlineExceeded)
		})
	}
}

func lazy(parent context.Context, d time.Duration) context.Context {
	return upstream.WithLazyDeadline(parent, time.Now().Add(d))
}

// The deadline of a request is the connection's, which serves later requests.
func TestConnectionOutlivesTheDeadlineOfItsRequest(t *testing.T) {
	base, conns := listen(t, ok, ok, ok)
	tr := newTransport(t, base, patience)
	soon := lazy(t.Context(), time.Second)
	for _, ctx := range []context.Context{soon, t.Context(), lazy(t.Context(), patience)} {
		if _, text, err := send(ctx, tr, http.MethodGet, base, ""); err != nil || text != "ok" {
			t.Fatalf("body %q, error %v; want ok", text, err)
		}
		<-soon.Done()
	}
	expect.Equal(t, conns.Load(), 1, "connections")
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	for name, end := range map[string]func(*Transport){
		"after their time": func(*Transport) {},
		"on request":       (*Transport).CloseIdleConnections,
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					close(closed)
				}
			}
			s.Start()
			t.Cleanup(s.Close)
			idle := patience
			if name == "after their time" {
				idle = time.Millisecond
			}
			tr := newTransport(t, s.URL, idle)
			mustSend(t, tr, http.MethodGet, s.URL+"/", "", "GET / ")
			end(tr)
			<-closed
		})
	}
}

func TestNoMoreIdleConnectionsThanAllowed(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait()
		echo(w, r)
	}))
	t.Cleanup(s.Close)
	tr := newTransport(t, s.URL, patience)
	errs := make(chan error)
	for range 8 {
		go func() {
			_, _, err := send(t.Context(), tr, http.MethodGet, s.URL, "")
			errs <- err
		}()
	}
	for range 8 {
		expect.NoError(t, <-errs)
	}
	expect.Equal(t, len(tr.idle.conns), 4, "idle connections")
}
