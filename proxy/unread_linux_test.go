package proxy_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// acceptedAt returns the inodes of the accepted connections to an address. Connections in the kernel's queue have none
// yet. The kernel does not copy its table in one moment, so it may list both a closed connection and its successor.
func acceptedAt(t *testing.T, address net.Addr) map[string]bool {
	t.Helper()
	table := expect.Value(os.ReadFile("/proc/net/tcp"))(t)
	local := netip.MustParseAddrPort(address.String())
	name := fmt.Sprintf("0100007F:%04X", local.Port())
	const listening = "0A" // state
	inodes := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == name && f[3] != listening && f[9] != "0" {
			inodes[f[9]] = true
		}
	}
	return inodes
}

// descriptorsAt counts the accepted connections to an address: those in two tables were open between the two.
func descriptorsAt(t *testing.T, address net.Addr) (count int) {
	t.Helper()
	before, after := acceptedAt(t, address), acceptedAt(t, address)
	for inode := range before {
		if after[inode] {
			count++
		}
	}
	return count
}

// Clients that do not read large responses use at most one descriptor per slot, and the next client gets one of them.
func TestClientsThatDoNotReadAreDisconnectedFirst(t *testing.T) {
	t.Parallel()
	const large = "GET /staking/validators?pagination.limit=1 HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, fast := range map[string]web.Lane{"in the lane": lane.New(lane.Options{}), "by net/http": nil} {
		t.Run(name, func(t *testing.T) {
			const most, readers = 8, 20
			p, nodes := newChainProxy(t, proxy.Options{Story: story.Options{Shape: story.Node}, Web: web.Options{Lane: fast}})
			body := []byte(`"` + strings.Repeat("x", 16<<20) + `"`) // exceeds the socket buffers
			nodes.answerWith(func(r node.Request) (*node.Answer, error) {
				if strings.HasPrefix(r.Path, "/staking/validators") {
					return &node.Answer{Status: http.StatusOK, Height: standstill, Body: body}, nil
				}
				return &node.Answer{Status: http.StatusOK, Height: standstill, Body: []byte(`{}`)}, nil
			})
			registry := prometheus.NewPedanticRegistry()
			l := serveOn(t, p, conn.Options{Settings: conn.Settings{Most: most}, Lane: fast, Metrics: registry}, (*httptest.Server).Start).Listener
			reader := dial(t, l.Addr())
			for range 4 { // often enough for the lane to serve it
				reader.roundTrip(t, large)
			}
			reader.Close()
			for i := range readers {
				c := expect.Value(net.Dial("tcp", l.Addr().String()))(t)
				t.Cleanup(func() { c.Close() })
				_ = c.(*net.TCPConn).SetReadBuffer(4096)
				expect.Value(io.WriteString(c, large))(t)
				if i < most { // there is a slot for each
					_ = c.SetReadDeadline(time.Now().Add(time.Minute))
					expect.Value(c.Read(make([]byte, 1)))(t)
				}
			}
			next := dial(t, l.Addr())
			_ = next.SetDeadline(time.Now().Add(time.Minute))
			answered := make(chan string)
			go func() {
				_, _ = io.WriteString(next, "GET /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n")
				status, err := next.answers.ReadString('\n')
				answered <- fmt.Sprint(status, err)
			}()
			highest := 0
			for waiting := true; waiting; {
				select {
				case answer := <-answered:
					waiting = false
					if !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
						t.Errorf("status line for the next client = %s, want 200", answer)
					}
				case <-time.After(10 * time.Millisecond):
				}
				highest = max(highest, descriptorsAt(t, l.Addr()))
			}
			if highest > most+1 { // one more connection is accepted and waits for a slot
				t.Errorf("descriptors in use = %d, want at most %d", highest, most+1)
			}
			if expect.Metric(t, registry, "tipcache_http_connections_closed_total", "stalled") == 0 {
				t.Error("connections closed because they stalled = 0, want at least 1")
			}
		})
	}
}

// unreadService answers each path with another large body.
type unreadService struct {
	*httptest.Server
	memory   *account.Account
	registry *prometheus.Registry
	repeats  int // how often a response is read before it is left unread
}

// unreadText is the length of a body, which exceeds the socket buffers.
const unreadText = 16 << 20

func startUnreadService(t *testing.T, memory int64, fast web.Lane, start func(*httptest.Server)) *unreadService {
	t.Helper()
	p, nodes := newChainProxy(t, proxy.Options{Story: story.Options{Shape: story.Node}, Web: web.Options{Lane: fast}})
	nodes.answerWith(func(r node.Request) (*node.Answer, error) {
		text := `"` + strings.Repeat(r.Path[len(r.Path)-1:], unreadText) + `"`
		return &node.Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: respond.JSON, Height: standstill, Body: []byte(text)}, nil
	})
	s := &unreadService{memory: account.New(memory, nil), registry: prometheus.NewPedanticRegistry()}
	s.Server = serveOn(t, p, conn.Options{Lane: fast, Memory: s.memory, Metrics: s.registry}, start)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		expect.Equal(t, s.memory.Used(), 0, "bytes reserved at the end")
	})
	return s
}

// ask sends a request on a new connection with a small receive buffer, and does not read the body. Before, it reads the
// response s.repeats times on another connection.
func (s *unreadService) ask(t *testing.T, path string) (unread io.Reader) {
	t.Helper()
	get := func(by *http.Client) io.Reader {
		res := expect.Value(by.Get(s.URL + path))(t)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res.Body
	}
	own := s.Client().Transport.(*http.Transport).Clone() //nolint:forcetypeassert // httptest's
	own.DisableCompression = true
	for range s.repeats {
		_, _ = io.Copy(io.Discard, get(&http.Client{Transport: own}))
	}
	own.CloseIdleConnections()
	own.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			_ = c.(*net.TCPConn).SetReadBuffer(64 << 10) //nolint:forcetypeassert // of that network
		}
		return c, err
	}
	t.Cleanup(own.CloseIdleConnections)
	return get(&http.Client{Transport: own})
}

// waitReserved waits until about the given number of bytes is reserved.
func (s *unreadService) waitReserved(t *testing.T, bytes int64) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("about %d reserved bytes", bytes), func() bool {
		used := s.memory.Used()
		return used >= bytes && used <= bytes+bytes/4
	})
}

// Responses that clients have not read reserve memory, once for each body. If memory is short, stalled connections are closed.
func TestUnreadResponsesReserveMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		lane    web.Lane
		start   func(*httptest.Server)
		repeats int
	}{
		"by net/http": {nil, (*httptest.Server).Start, 0},
		"in the lane": {lane.New(lane.Options{}), (*httptest.Server).Start, 3},
		"over TLS":    {nil, (*httptest.Server).StartTLS, 0},
		"over HTTP/2": {nil, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startUnreadService(t, 3*unreadText, tt.lane, tt.start)
			s.repeats = tt.repeats
			responses := []io.Reader{s.ask(t, "/staking/validators/a")}
			s.waitReserved(t, unreadText)
			responses = append(responses, s.ask(t, "/staking/validators/a"), s.ask(t, "/staking/validators/b"))
			s.waitReserved(t, 2*unreadText)
			responses = append(responses, s.ask(t, "/staking/validators/c")) // three bodies exceed the limit with other reservations
			expect.Eventually(t, "a connection closed because of memory", func() bool {
				return expect.Metric(t, s.registry, "tipcache_http_connections_closed_total", "memory") > 0 && s.memory.Limit()-s.memory.Used() < unreadText
			})
			cut := 0
			for _, response := range responses {
				if _, err := io.Copy(io.Discard, response); err != nil {
					cut++
				}
			}
			if cut == 0 || cut == len(responses) {
				t.Errorf("responses that ended early = %d of %d, want some", cut, len(responses))
			}
		})
	}
}

// Types of the frames of HTTP/2 (RFC 9113, section 6).
const (
	headersFrame  = 1
	settingsFrame = 4
)

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// requestWithoutWindow sends a request over HTTP/2 with a window of 0, so that no body can be sent. It returns after
// the headers of the response have arrived.
func requestWithoutWindow(t *testing.T, address net.Addr, path string) {
	t.Helper()
	c := expect.Value(tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))(t) //nolint:gosec // of a test
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	const noWindow, endOfRequest = "\x00\x04\x00\x00\x00\x00", 1 | 4
	get := "\x82\x87\x04" + string(rune(len(path))) + path + "\x01\x01x" // GET, https, :path, :authority
	expect.Value(io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(settingsFrame, 0, 0, noWindow)+frame(headersFrame, endOfRequest, 1, get)))(t)
	for head := [9]byte{}; head[3] != headersFrame; {
		expect.Value(io.ReadFull(c, head[:]))(t)
		expect.Value(io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:])>>8)))(t)
	}
}

func TestHTTP2ClientsWithoutWindowAreDisconnectedFirst(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a large response": 1 << 20, "a response that fits the buffer of net/http": 100} {
		t.Run(name, func(t *testing.T) {
			const most = 2
			p, nodes := newChainProxy(t, proxy.Options{Story: story.Options{Shape: story.Node}})
			nodes.reply(http.StatusOK, `"`+strings.Repeat("x", size)+`"`)
			registry := prometheus.NewPedanticRegistry()
			s := serveOn(t, p, conn.Options{Settings: conn.Settings{Most: most}, Metrics: registry}, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
			for range most {
				requestWithoutWindow(t, s.Listener.Addr(), "/staking/pool")
			}
			next := &chainService{Server: s}
			next.get(t, "/staking/pool").expect(t, http.StatusOK)
			if expect.Metric(t, registry, "tipcache_http_connections_closed_total", "stalled") == 0 {
				t.Error("connections closed because they stalled = 0, want at least 1")
			}
		})
	}
}
