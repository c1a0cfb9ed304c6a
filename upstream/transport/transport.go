// Package transport provides an HTTP/1.1 transport that writes requests and reads responses on the caller's goroutine.
// http.Transport uses two goroutines per connection. For a small request, handing it over to them costs more than
// everything else.
package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// Options are the limits of a Transport.
type Options struct {
	Dial    time.Duration // timeout for connecting, including the TLS handshake
	Idle    time.Duration // idle connections are closed after this time
	MaxIdle int           // maximum number of idle connections
	MaxAge  time.Duration // see Age; default DefaultMaxAge
}

// DefaultMaxAge is the usual age at which a connection to a node is replaced. A new connection resolves the name again, which may
// have moved to another address while the old one still accepts requests.
const DefaultMaxAge = 5 * time.Minute

// Age returns the age at which a connection begins no more requests: maxAge and up to a quarter more, at random, so that
// connections opened together are not replaced together.
func Age(maxAge time.Duration) time.Duration { return maxAge + rand.N(maxAge/4+1) }

const (
	// maxHead is the maximum size of a response head in bytes.
	maxHead = 64 << 10

	// maxSent is the maximum size of a request body that is sent before the response is read. It fits into the
	// kernel's buffers, so a server that does not read the body does not block the request.
	maxSent = 16 << 10
)

// A Transport sends requests to one server. It uses http.Transport for upgrades, long request bodies and proxies.
type Transport struct {
	host    string // with the port
	tls     *tls.Config
	dialer  net.Dialer
	idle    idle
	maxAge  time.Duration
	proxied bool

	mu      sync.Mutex
	long    *http.Transport // replaced at replace
	replace time.Time
}

// New returns a transport to the server at a base URL, whose scheme is http or https.
func New(base *url.URL, o Options) *Transport {
	maxAge := cmp.Or(o.MaxAge, DefaultMaxAge)
	t := &Transport{
		maxAge:  maxAge,
		replace: time.Now().Add(Age(maxAge)),
		dialer:  net.Dialer{Timeout: o.Dial},
		idle:    idle{maxConns: o.MaxIdle, timeout: o.Idle},
		long: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: o.Dial}).DialContext,
			TLSHandshakeTimeout:    o.Dial,
			IdleConnTimeout:        o.Idle,
			MaxIdleConnsPerHost:    o.MaxIdle,
			MaxResponseHeaderBytes: maxHead,
			DisableCompression:     true,
		},
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: base})
	t.proxied = proxy != nil || err != nil // http.Transport reports the error
	port := base.Port()
	if base.Scheme == "https" {
		t.tls = &tls.Config{ServerName: base.Hostname(), MinVersion: tls.VersionTLS12}
		port = cmp.Or(port, "443")
	}
	t.host = net.JoinHostPort(base.Hostname(), cmp.Or(port, "80"))
	return t
}

// RoundTrip implements http.RoundTripper. The request's URL must be below the base URL. If the server has closed an idle
// connection, RoundTrip sends the request again on a new one, once, if it is [upstream.IsRepeatable]. It does not repeat
// others, because the server may have read the request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.proxied || r.ContentLength > maxSent || r.ContentLength < 0 || r.Header.Get("Upgrade") != "" {
		return t.currentLong().RoundTrip(r)
	}
	for c := t.idle.take(); ; c = nil {
		reused := c != nil
		if !reused {
			var err error
			if c, err = t.dial(r.Context()); err != nil {
				if r.Body != nil {
					_ = r.Body.Close()
				}
				return nil, contextError(r.Context(), err)
			}
		}
		response, err := c.exchange(r)
		if err == nil {
			return response, nil
		}
		if r.Context().Err() != nil || !reused || c.answered || !upstream.IsRepeatable(r) {
			return nil, contextError(r.Context(), err)
		}
		if r, err = again(r); err != nil {
			return nil, err
		}
	}
}

// again returns a request with its body from the start.
func again(r *http.Request) (*http.Request, error) {
	if r.GetBody == nil {
		return r, nil
	}
	body, err := r.GetBody()
	repeated := *r
	repeated.Body = body
	return &repeated, err
}

// currentLong returns the http.Transport, and replaces an old one, because http.Transport reuses a busy connection without end.
// Requests in flight end on the connections of the old one.
func (t *Transport) currentLong() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); !now.Before(t.replace) {
		old := t.long
		t.long, t.replace = old.Clone(), now.Add(Age(t.maxAge))
		defer old.CloseIdleConnections()
	}
	return t.long
}

// CloseIdleConnections closes idle connections.
func (t *Transport) CloseIdleConnections() {
	t.idle.closeAll()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.long.CloseIdleConnections()
}

func (t *Transport) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.dialer.Timeout)
	defer cancel()
	raw, err := t.dialer.DialContext(ctx, "tcp", t.host)
	if err != nil {
		return nil, err
	}
	if t.tls == nil {
		return newConn(t, raw, raw), nil
	}
	secure := tls.Client(raw, t.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return newConn(t, secure, raw), nil
}

// contextError returns ctx.Err() if it is not nil, and err otherwise.
func contextError(ctx context.Context, err error) error { return cmp.Or(ctx.Err(), err) }
