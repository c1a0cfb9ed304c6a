package proxy_test

import (
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

// requestWithoutWindow sends a request over HTTP/2 with a window of 0, so that no body can be sent. It returns after
// the headers of the response have arrived.
func requestWithoutWindow(t *testing.T, address net.Addr, path string) {
	t.Helper()
	c, err := tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // of a test
	expect.NoError(t, err)
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
			p, nodes := newChainProxy(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
			nodes.reply(http.StatusOK, `"`+strings.Repeat("x", size)+`"`)
			registry := prometheus.NewPedanticRegistry()
			s := serveOn(t, p, listener.Options{Most: most, Metrics: registry}, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
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
