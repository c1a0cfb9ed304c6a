package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// A crowd waits for a block, in the name of many clients.
type crowd struct {
	*testing.T
	handler http.Handler
	ask     func(ctx context.Context) *http.Request
	ended   chan *httptest.ResponseRecorder
}

// come has clients ask; stop makes them leave.
func (c *crowd) come(requests int, from func(i int) string, header ...string) (stop func()) {
	ctx, stop := context.WithCancel(c.Context())
	for i := range requests {
		r := c.ask(ctx)
		r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from(i)), 1).String()
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		go func() {
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, r)
			c.ended <- w
		}()
	}
	return stop
}

// end checks the next answers that come.
func (c *crowd) end(answers, status int) {
	c.Helper()
	for range answers {
		w := <-c.ended
		if w.Code != status {
			c.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
		}
		if refused := w.Code == http.StatusTooManyRequests; refused != (w.Header().Get("Retry-After") != "") ||
			refused && !strings.Contains(w.Body.String(), "too many requests of this client wait for a block") {
			c.Fatalf("status %d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
}

func always(addr string) func(int) string { return func(int) string { return addr } }

// host is one of a network of an IPv6 prefix.
func host(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }

func TestClientHasALimitedShareOfWaitingRequests(t *testing.T) {
	log := &logtest.Log{}
	p, nodes := newChainProxy(t, proxy.Options{
		Chain: chain.Options{MinHeightWait: time.Minute},
		Web: web.Options{
			RequestTimeout: 2 * time.Minute, AccessLog: log, Logger: slog.New(slog.NewTextHandler(log, nil)),
			Limits: limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		},
	})
	c := &crowd{T: t, handler: p, ended: make(chan *httptest.ResponseRecorder, 1000), ask: func(ctx context.Context) *http.Request {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, anyPath, nil)
		r.Header.Set("X-Min-Block-Height", "229")
		return r
	}}
	c.come(510, always("192.0.2.1")) // half of the places, and one more
	c.end(9, http.StatusTooManyRequests)
	leave := c.come(60, host) // of one network
	c.end(10, http.StatusTooManyRequests)
	c.come(60, always("10.0.0.1"), "X-Forwarded-For", "198.51.100.7") // of one client of a trusted proxy
	c.end(10, http.StatusTooManyRequests)
	c.come(100, always("127.0.0.1"))
	c.come(100, always("10.0.0.1")) // which says of none whose it is
	leave()
	for range 50 { // those of the network
		<-c.ended
	}
	c.come(55, host) // who may wait again
	c.end(5, http.StatusTooManyRequests)
	nodes.grow(1)
	c.end(501+50+100+100+50, http.StatusOK)
	if strings.Contains(log.String(), `"level":"ERROR"`) || !strings.Contains(log.String(), `"status":429`) {
		t.Errorf("the log says otherwise: %.2000s", log.String())
	}
}
