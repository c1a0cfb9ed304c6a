package conn_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A sink is a connection that records writes.
type sink struct {
	net.Conn
	onWrite func()
	writes  int
	written []byte
	err     error
	closed  bool
}

func (s *sink) Write(p []byte) (int, error) {
	if s.onWrite != nil {
		s.onWrite()
	}
	if s.err != nil {
		return 0, s.err
	}
	s.writes++
	s.written = append(s.written, p...)
	return len(p), nil
}
func (s *sink) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.7"), Port: 1}
}
func (s *sink) Close() error { s.closed = true; return nil }

// buffered writes as net/http does.
type buffered struct {
	http.ResponseWriter
	*bufio.Writer
}

func (b buffered) Write(p []byte) (int, error) { return b.Writer.Write(p) }
func (b buffered) Flush()                      { _ = b.Writer.Flush() }

func TestBodyAndHeadersTakeFewWrites(t *testing.T) {
	const headers = 200
	for size, want := range map[int]int{ // writes; a write of several pieces counts as one for each
		0: 0, 3 << 10: 0, 3<<10 + 1: 1, 6 << 10: 1, 8<<10 - headers: 1, 8 << 10: 2, 16 << 10: 2, 16<<10 + 1: 2, 64 << 10: 2, 200 << 10: 5,
	} {
		for _, major := range []int{1, 2} {
			s, closed, listed := &sink{}, 0, 0
			c := conn.New(s, nil, nil, func() { closed++ })
			s.onWrite = func() { c.EachBody(func(body []byte) { listed = len(body) }) }
			r := httptest.NewRequestWithContext(conn.Context(t.Context(), c), http.MethodGet, "/", nil)
			r.ProtoMajor = major
			body := bytes.Repeat([]byte("x"), size)
			w := buffered{Writer: bufio.NewWriterSize(c, 4<<10)}
			_, _ = w.Write(bytes.Repeat([]byte("h"), headers))
			conn.WriteBody(w, r, body)
			expect.Equal(t, s.writes, want, "%d bytes: writes", size)
			if w.Flush(); len(s.written) != headers+size || !bytes.HasSuffix(s.written, body) {
				t.Errorf("%d bytes: %d bytes were sent, want %d", size, len(s.written), headers+size)
			}
			if isListed := major == 1 && size > conn.MaxUncounted; isListed != (listed == size && size > 0) {
				t.Errorf("%d bytes by HTTP/%d: EachBody lists %d bytes during the write", size, major, listed)
			}
			c.EachBody(func(body []byte) { t.Errorf("EachBody lists %d bytes after the write", len(body)) })
			if _ = c.Close(); closed != 1 || !s.closed || c.Address().String() != "10.0.0.7" || conn.Of(r) != c {
				t.Errorf("closed = %d times, address %s", closed, c.Address())
			}
		}
	}
}

func TestConnectionIsClosedIfTheHeldBytesCannotBeSent(t *testing.T) {
	s := &sink{err: errors.New("reset")}
	c := conn.New(s, nil, nil, nil)
	r := httptest.NewRequestWithContext(conn.Context(t.Context(), c), http.MethodGet, "/", nil)
	w := buffered{Writer: bufio.NewWriterSize(c, 4<<10)}
	if conn.WriteBody(w, r, make([]byte, 5<<10)); !s.closed {
		t.Error("connection open after a failed write")
	}
}

func TestConnectionIsIdleWithoutRequestsAndWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, next := time.Now(), make(chan struct{})
		s := &sink{onWrite: func() { <-next }}
		c := conn.New(s, nil, nil, nil)
		check := func(when string, want bool, heard time.Duration, stalled bool) {
			t.Helper()
			since, idle := c.Idle()
			if _, isStalled := c.Stalled(); idle != want || since.Sub(began) != heard || isStalled != stalled {
				t.Errorf("%s: idle = %t since %s, stalled = %t, want %t since %s, %t", when, idle, since.Sub(began), isStalled, want, heard, stalled)
			}
		}
		time.Sleep(time.Second)
		check("at first", true, 0, false)
		conn.State(c, http.StateActive)
		check("during a request", false, 0, false)
		conn.State(c, http.StateIdle)
		check("after a request", true, time.Second, false)
		conn.State(c, http.StateHijacked)
		check("after an upgrade", false, time.Second, false)
		conn.State(c, http.StateIdle)
		go func() { _, _ = c.Write(make([]byte, 100<<10)) }()
		time.Sleep(999 * time.Millisecond)
		check("during a write", false, time.Second, false)
		time.Sleep(time.Millisecond)
		check("during a long write", false, time.Second, true)
		next <- struct{}{}
		synctest.Wait()
		check("after a part of a write", false, time.Second, false)
		next <- struct{}{}
		synctest.Wait()
		check("after a write", true, time.Second, false)
		expect.Equal(t, len(s.written), 100<<10, "bytes sent")
	})
}

func TestResponseReservesMemoryUntilItIsRead(t *testing.T) {
	memory := account.New(1<<20, nil)
	m := conn.NewMemory(memory, conn.LargestBody, limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), nil))
	c := conn.New(&sink{}, nil, memory, nil)
	r := httptest.NewRequestWithContext(conn.Context(t.Context(), c), http.MethodGet, "/", nil)
	for size, want := range map[int]int64{conn.MaxUncounted: 0, conn.MaxUncounted + 1: conn.MaxUncounted + 1} {
		release, err := m.HoldResponse(r, size)
		if err != nil || c.HeldBytes() != want || memory.Used() != want {
			t.Errorf("%d bytes: %d held, %d reserved, error %v; want %d", size, c.HeldBytes(), memory.Used(), err, want)
		}
		if release(); c.HeldBytes() != 0 || memory.Used() != 0 {
			t.Errorf("%d bytes: %d held, %d reserved after the release; want 0", size, c.HeldBytes(), memory.Used())
		}
	}
	if release, err := m.HoldResponse(r, 1<<21); release != nil || failure.Of(err).Status != http.StatusServiceUnavailable || failure.Of(err).RetryAfter != time.Second || c.HeldBytes() != 0 {
		t.Errorf("HoldResponse of too much = %v with a release: %t, want 503 without one", err, release != nil)
	}
	release, err := m.HoldStream(1000)
	if err != nil || memory.Used() != 1000 {
		t.Errorf("HoldStream reserved %d, error %v; want 1000", memory.Used(), err)
	}
	if release(); memory.Used() != 0 {
		t.Errorf("%d bytes reserved after the release, want 0", memory.Used())
	}
	if _, err := m.HoldStream(1 << 21); failure.Of(err).Status != http.StatusServiceUnavailable {
		t.Errorf("HoldStream of too much = %v, want 503", err)
	}
	if _, err := m.HoldStream(0); err != nil || memory.Used() != 0 {
		t.Errorf("HoldStream(0) = %v with %d reserved, want nil and 0", err, memory.Used())
	}
}

func TestRevokedStreamsEnd(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	admission := limits.New(limits.Shared{}, log, nil)
	key := func(text string) limits.Key { return limits.Key{Name: text, SHA256: sha256.Sum256([]byte(text))} }
	admission.SetKeys([]limits.Key{key("stays"), key("goes")})
	v, ended := conn.NewRevocations(admission, log, nil), map[string]int{}
	open := func(text string) (release func(), err error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set(limits.KeyHeader, text)
		return v.OnRevoked(r, text != "anyone", func() string {
			if text == "anyone" {
				return "/denied"
			}
			return ""
		}, func(err error) { ended[text] = failure.Of(err).Status })
	}
	for _, text := range []string{"stays", "goes", "anyone"} {
		expect.Value(open(text))(t)
		release := expect.Value(open(text))(t)
		release()
	}
	admission.SetKeys([]limits.Key{key("stays")})
	admission.Limits.Store(&limits.Limits{Access: []limits.Rule{limits.NewDeny("/denied")}})
	if _, err := open("late"); failure.Of(err).Status != http.StatusUnauthorized {
		t.Errorf("OnRevoked with a removed key = %v, want 401", err)
	}
	if v.EndRevoked(); ended["goes"] != http.StatusUnauthorized || ended["anyone"] != http.StatusForbidden || len(ended) != 2 {
		t.Errorf("ended with %v, want 401 for the removed key and 403 for the denied operation alone", ended)
	}
	clear(ended)
	if v.EndRevoked(); len(ended) > 0 {
		t.Errorf("ended twice: %v", ended)
	}
}

func TestTLSCarriesResponsesInFewWrites(t *testing.T) {
	made := httptest.NewTLSServer(nil)
	defer made.Close()
	config := &tls.Config{Certificates: made.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	for _, protocol := range []string{"http/1.1", "h2"} {
		ours, theirs := net.Pipe()
		counted := &counting{Conn: ours}
		client := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}) //nolint:gosec // a test's certificate
		received := make(chan []byte)
		go func() {
			text, _ := io.ReadAll(client)
			received <- text
		}()
		server := expect.Value(conn.Secure(t.Context(), conn.New(counted, nil, nil, nil), config, nil, time.Now().Add(time.Minute)))(t)
		if got := conn.Accepted(server); got == nil || got.CarriesTLS() != (protocol == "h2") {
			t.Errorf("%s: CarriesTLS = %t", protocol, got.CarriesTLS())
		}
		before := counted.writes
		body := bytes.Repeat([]byte("x"), 150<<10)
		r := httptest.NewRequestWithContext(conn.Context(t.Context(), server), http.MethodGet, "/", nil)
		w := buffered{Writer: bufio.NewWriterSize(server, 4<<10)}
		_, _ = w.WriteString("headers")
		conn.WriteBody(w, r, body)
		w.Flush()
		if writes := counted.writes - before; protocol == "http/1.1" && writes > 4 {
			t.Errorf("%d writes, want 4 at most", writes)
		}
		_ = server.Close()
		if got := <-received; string(got) != "headers"+string(body) {
			t.Errorf("%s: the client got %d bytes, want %d", protocol, len(got), len("headers")+len(body))
		}
	}
}

type counting struct {
	net.Conn
	writes int
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

func TestHandshakeThatFailsClosesTheConnection(t *testing.T) {
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n":  "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
		"SSH-2.0-x SSH-2.0-x\r\n": "",
	} {
		ours, theirs := net.Pipe()
		received := make(chan string)
		go func() {
			go func() { _, _ = io.WriteString(theirs, sent) }()
			text, _ := io.ReadAll(theirs)
			received <- string(text)
		}()
		if _, err := conn.Secure(t.Context(), conn.New(ours, nil, nil, nil), &tls.Config{}, nil, time.Now().Add(time.Minute)); err == nil { //nolint:gosec // no handshake succeeds
			t.Errorf("Secure = nil for %q, want an error", sent)
		}
		if got := <-received; !strings.HasSuffix(got, want) || want == "" && strings.Contains(got, "HTTP") {
			t.Errorf("response to %q = %q, want %q", sent, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		began := time.Now()
		if _, err := conn.Secure(context.Background(), conn.New(ours, nil, nil, nil), &tls.Config{}, nil, time.Now().Add(time.Minute)); err == nil || time.Since(began) != time.Minute { //nolint:gosec // no handshake succeeds
			t.Errorf("Secure = %v after %s, want an error after 1m0s", err, time.Since(began))
		}
	})
}
