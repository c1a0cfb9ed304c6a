package conn_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A reserving listener accepts connections that reserve memory in an account.
type reserving struct {
	net.Listener
	memory *account.Account
}

func (l reserving) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.New(c, nil, l.memory, nil), nil
}

// serveStreams serves HTTP/2 without TLS with a cache.memory of some megabytes. Streams can have 448 KiB of each megabyte. A
// request waits until answer is closed, except for the path /now.
func serveStreams(t *testing.T, megabytes int64) (url string, memory *account.Account, client *http.Client, begun chan struct{}, answer chan struct{}) {
	t.Helper()
	c := expect.Value(cache.New(cache.Options{MemoryBytes: megabytes << 20}))(t)
	t.Cleanup(func() { _ = c.Close() })
	begun, answer = make(chan struct{}, 100), make(chan struct{})
	s := web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()}, c)
	engine := s.NewEngine(nil, func(*web.Request) web.Route {
		return web.Route{Name: "wait", Serve: func(r *web.Request) error {
			if r.URL.Path == "/open" {
				_ = http.NewResponseController(r.Writer).Flush()
			}
			if r.URL.Path != "/now" {
				begun <- struct{}{}
				<-answer
			}
			r.Send(http.StatusOK, respond.JSON, []byte("{}"))
			return nil
		}, Render: func(_ *web.Request, h http.Header, f *failure.Failure) (int, string, []byte) {
			f.SetAdvice(h)
			return f.Status, "text/plain", []byte(f.Public)
		}}
	})
	server := httptest.NewUnstartedServer(engine.Handler())
	server.Listener = reserving{server.Listener, c.Account()}
	server.Config.ConnContext, server.Config.ConnState, server.Config.HTTP2 = conn.Context, conn.State, conn.HTTP2()
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: server.Config.Protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return server.URL, c.Account(), &http.Client{Transport: transport}, begun, answer
}

func TestStreamsBeyondTheFirstAreReserved(t *testing.T) {
	url, memory, client, begun, answer := serveStreams(t, 1)
	var mu sync.Mutex
	statuses := map[int]int{} // 0 for a stream that was reset
	var all sync.WaitGroup
	get := func() {
		all.Go(func() {
			var status int
			if resp, err := client.Get(url); err == nil {
				status = resp.StatusCode
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if status == http.StatusServiceUnavailable && (resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "too little memory is free")) {
					t.Errorf("refusal = %v %s, want Retry-After and the reason", resp.Header, body)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	for i := range 13 { // the first, and 12 of 36 KiB
		get()
		<-begun
		expect.Equal(t, memory.Used(), int64(i)*36<<10, "Used with %d streams", i+1)
	}
	for range 10 {
		get()
	}
	expect.Eventually(t, "the streams without memory are refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return statuses[http.StatusServiceUnavailable]+statuses[0] == 10
	})
	close(answer)
	all.Wait()
	if statuses[http.StatusOK] != 13 || statuses[http.StatusServiceUnavailable] == 0 {
		t.Errorf("requests by status = %v, want 13 with 200, and 503 among the others", statuses)
	}
	expect.EventuallyEqual(t, "all streams are released", memory.Used, 0)
}

func TestResponsesReadBesideAnOpenStreamAreReleased(t *testing.T) {
	url, memory, client, begun, answer := serveStreams(t, 16)
	get := func(path string) {
		resp, err := client.Get(url + path)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	var open sync.WaitGroup
	open.Go(func() { get("/open") })
	end := sync.OnceFunc(func() { close(answer) })
	defer end()
	<-begun
	for range 50 {
		get("/now")
	}
	expect.Eventually(t, "at most ten streams are reserved", func() bool { return memory.Used() <= 10*36<<10 })
	end()
	open.Wait()
	expect.EventuallyEqual(t, "all streams are released", memory.Used, 0)
}

func TestStreamsParkedBesideALongOneAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := account.New(8<<20, nil)
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := conn.New(ours, nil, memory, nil)
		defer c.Close()
		server := &http.Server{WriteTimeout: 30 * time.Second}
		ctx := conn.Context(context.WithValue(t.Context(), http.ServerContextKey, server), c)
		hit := func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			c.ServeStream(httptest.NewRecorder(), r, func(w http.ResponseWriter) bool {
				_, _ = io.WriteString(w, "a response")
				return true
			}, nil)
		}
		reserved := func(want int64, when string) {
			t.Helper()
			expect.Equal(t, memory.Used()/(36<<10), want, "reserved streams %s", when)
		}
		c.ServeStream(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), func(http.ResponseWriter) bool { return false }, func(w http.ResponseWriter, _ bool) {
			for range 50 {
				hit()
			}
			reserved(50, "after 50 responses")
			time.Sleep(20 * time.Second)
			hit()
			reserved(51, "before the server's timeout")
			time.Sleep(20 * time.Second)
			hit()
			time.Sleep(40 * time.Second)
			go func() { _, _ = c.Write([]byte("x")) }()
			synctest.Wait()
			hit()
			reserved(53, "while the socket blocks")
			_, _ = theirs.Read(make([]byte, 1))
			synctest.Wait()
			w.(http.Flusher).Flush()
			reserved(2, "after the timeout of all but the last two")
			time.Sleep(40 * time.Second)
			w.(http.Flusher).Flush()
			reserved(0, "after the timeout of all")
		})
	})
}

func TestRefusedCallsCountUntilTheClientReads(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := conn.New(ours, nil, account.New(1<<10, nil), nil)
	defer c.Close()
	var open, refused conn.CallStream
	if !c.OpenCall(t.Context(), &open, 0, 0) || !open.Begin() {
		t.Fatal("OpenCall or Begin = false, want true")
	}
	for range 2 {
		c.OpenCall(t.Context(), &refused, 0, 0)
	}
	expect.Equal(t, c.StreamBytes(true), 2*36<<10, "StreamBytes with two refused calls")
	message := []byte("a response")
	open.Sending(message)
	expect.Equal(t, c.StreamBytes(true), 2*36<<10, "StreamBytes before the client reads")
	open.Sent(message)
	expect.Equal(t, c.StreamBytes(true), 0, "StreamBytes after the client has read")
	open.End()
}

func TestLongHeadersAreReserved(t *testing.T) {
	url, memory, client, begun, answer := serveStreams(t, 1)
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	r.Header.Set("X-Long", strings.Repeat("x", 6<<10))
	done := make(chan error, 1)
	go func() {
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	<-begun
	if used := memory.Used(); used < 2<<10 || used > 3<<10 {
		t.Errorf("Used = %d with 6 KiB of headers, want about 2 KiB", used)
	}
	close(answer)
	expect.NoError(t, <-done)
	expect.EventuallyEqual(t, "the headers are released", memory.Used, 0)
}

func TestCallReservesMessagesThatArriveBeforeItsHandler(t *testing.T) {
	memory := account.New(1<<20, nil)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := conn.New(ours, nil, memory, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var first, second, third, fourth, fifth, sixth, seventh conn.CallStream
	used := func(what string, want int64) {
		t.Helper()
		expect.Equal(t, memory.Used(), want, "Used (%s)", what)
	}
	open := func(ctx context.Context, k *conn.CallStream, headers int64) {
		t.Helper()
		if !c.OpenCall(ctx, k, headers, 64<<10) {
			t.Error("OpenCall = false, want true")
		}
	}
	open(t.Context(), &first, 4<<10)
	used("with one call", 0)
	open(t.Context(), &second, 5<<10)
	used("with a second one that has not begun", (36+64+1)<<10)
	if !first.Begin() || !second.Begin() {
		t.Error("Begin = false, want true")
	}
	used("with two handlers", (36+1)<<10)
	open(ctx, &third, 0)
	cancel()
	open(t.Context(), &fourth, 0)
	used("after one was reset before its handler", (36+1+36+64)<<10)
	if third.Begin() {
		t.Error("Begin = true after the call has ended, want false")
	}
	message := []byte("a response")
	second.Sending(message)
	first.End()
	second.End()
	used("with a response that has not left and a call that has not begun", (36+64)<<10)
	second.Sent(message)
	used("when the response has left", 64<<10)
	open(t.Context(), &fifth, 0)
	if !fifth.Begin() {
		t.Error("Begin = false, want true")
	}
	fifth.Sending(message)
	_ = c.Close()
	open(t.Context(), &sixth, 0)
	open(t.Context(), &seventh, 0)
	fifth.End() // before its response has left
	used("when the connection is closed", 0)
	second.Sent(message) // late, after the call has ended
	used("after that", 0)
}

func TestConnectionIsNotReadFor50msAfterARefusedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := conn.New(ours, nil, account.New(50<<10, nil), nil)
		defer c.Close()
		go func() {
			for range 4 {
				_, _ = theirs.Write([]byte("x"))
			}
		}()
		paused := func(want time.Duration) {
			t.Helper()
			start := time.Now()
			expect.Value(c.Read(make([]byte, 1)))(t)
			expect.Equal(t, time.Since(start), want, "duration of the read")
		}
		var first, second, third conn.CallStream
		if !c.OpenCall(t.Context(), &first, 0, 0) || !c.OpenCall(t.Context(), &second, 0, 0) {
			t.Fatal("OpenCall = false, want true")
		}
		paused(0)
		if c.OpenCall(t.Context(), &third, 0, 0) {
			t.Fatal("OpenCall = true without memory, want false")
		}
		paused(50 * time.Millisecond)
		paused(0)
		c.OpenCall(t.Context(), &third, 0, 0)
		c.OpenCall(t.Context(), &third, 0, 0)
		paused(50 * time.Millisecond)
	})
}

func TestConnectionIsStalledWhileMessagesAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := conn.New(ours, nil, account.New(1<<20, nil), nil)
		defer c.Close()
		var call conn.CallStream
		if !c.OpenCall(t.Context(), &call, 0, 0) || !call.Begin() {
			t.Fatal("OpenCall or Begin = false, want true")
		}
		stalled := func(want bool, when string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if _, got := c.Stalled(); got != want {
				t.Errorf("Stalled = %t %s, want %t", got, when, want)
			}
		}
		message := []byte("a response")
		stalled(false, "before a message is sent")
		call.Sending(message)
		call.Sending(message)
		stalled(true, "while two messages wait")
		call.Sent(message)
		stalled(true, "while one message waits")
		call.Sent(message)
		stalled(false, "when all messages have left")
		call.End()
		stalled(false, "when the call has ended")
	})
}

func TestConnectionIsNotStalledWhileAHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := conn.New(ours, nil, account.New(1<<20, nil), nil)
		defer c.Close()
		conn.State(c, http.StateActive)
		stalled := func(want bool, when string) {
			time.Sleep(2 * time.Second)
			if _, got := c.Stalled(); got != want {
				t.Errorf("Stalled = %t %s, want %t", got, when, want)
			}
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		c.ServeStream(httptest.NewRecorder(), r, func(http.ResponseWriter) bool { return false }, func(w http.ResponseWriter, _ bool) {
			stalled(false, "while the handler runs")
			_, _ = w.Write([]byte("a response"))
		})
		stalled(true, "while the response has not left")
	})
}

// A failingWriter is a response whose client disconnects after some writes.
type failingWriter struct {
	*httptest.ResponseRecorder
	writes int // left
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.writes--; w.writes < 0 {
		return 0, io.ErrClosedPipe
	}
	return w.ResponseRecorder.Write(p)
}

func TestStreamIsWrittenInPiecesUntilAWriteFails(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := conn.New(ours, nil, nil, nil)
	defer c.Close()
	body := strings.Repeat("0123456789", 20<<10)
	for writes, want := range map[int]int{4: len(body), 2: 128 << 10} {
		w := &failingWriter{httptest.NewRecorder(), writes}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		c.ServeStream(w, r, func(w http.ResponseWriter) bool {
			n, err := io.WriteString(w, body)
			if n != want || (err == nil) != (want == len(body)) {
				t.Errorf("Write with %d writes = %d, %v; want %d", writes, n, err, want)
			}
			return true
		}, nil)
		expect.Equal(t, w.Body.String(), body[:want], "response with %d writes", writes)
		c.EachBody(func([]byte) { t.Error("EachBody lists the body after the response") })
	}
}
