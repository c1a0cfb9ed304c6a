package proxy_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// Types of the frames of HTTP/2 (RFC 9113, section 6).
const (
	headersFrame  = 1
	settingsFrame = 4
)

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// askWithoutWindow asks over HTTP/2 for what the client lets nobody send, and returns when
// the headers of the answer have come.
func askWithoutWindow(t *testing.T, address net.Addr, path string) {
	t.Helper()
	c, err := tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // of a test
	expect.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	const noWindow, endOfRequest = "\x00\x04\x00\x00\x00\x00", 1 | 4
	get := "\x82\x87\x04" + string(rune(len(path))) + path + "\x01\x01x" // GET, https, :path, :authority
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(settingsFrame, 0, 0, noWindow)+frame(headersFrame, endOfRequest, 1, get)); err != nil {
		t.Fatal(err)
	}
	for head := [9]byte{}; head[3] != headersFrame; {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:])>>8)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHTTP2ClientsWithoutWindowAreDisconnectedFirst(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a large answer": 1 << 20, "an answer that the handler does not wait for": 100} {
		t.Run(name, func(t *testing.T) {
			const most = 2
			p, nodes := newChainProxy(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
			nodes.does(func(node.Request) (*node.Answer, error) {
				return &node.Answer{Status: http.StatusOK, Height: standstill, Body: []byte(`"` + strings.Repeat("x", size) + `"`)}, nil
			})
			registry := prometheus.NewPedanticRegistry()
			s := serveOn(t, p, listener.Options{Most: most, Metrics: registry}, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
			for range most {
				askWithoutWindow(t, s.Listener.Addr(), "/staking/pool")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			req := expect.Value(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/staking/pool", nil))(t)
			res, err := s.Client().Do(req)
			if err != nil {
				t.Fatalf("the next client: %v", err)
			}
			_, err = io.Copy(io.Discard, res.Body)
			if _ = res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("the next client got %s, %v", res.Status, err)
			}
			if closed := counted(t, registry, "tipcache_http_connections_closed_total"); !strings.Contains(strings.Join(closed, "\n"), `cause:"stalled"`) {
				t.Errorf("closed: %v", closed)
			}
		})
	}
}
