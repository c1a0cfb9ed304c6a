package proxy_test

import (
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
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
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
			p, nodes := newChainProxy(t, proxy.Options{Chain: story.Options{Shape: story.Node}, Web: web.Options{Lane: fast}})
			body := []byte(`"` + strings.Repeat("x", 16<<20) + `"`) // exceeds the socket buffers
			nodes.answerWith(func(r node.Request) (*node.Answer, error) {
				if strings.HasPrefix(r.Path, "/staking/validators") {
					return &node.Answer{Status: http.StatusOK, Height: standstill, Body: body}, nil
				}
				return &node.Answer{Status: http.StatusOK, Height: standstill, Body: []byte(`{}`)}, nil
			})
			registry := prometheus.NewPedanticRegistry()
			l := serveOn(t, p, listener.Options{Most: most, Lane: fast, Metrics: registry}, (*httptest.Server).Start).Listener
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
