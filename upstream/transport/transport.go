// Package transport has an HTTP/1.1 transport that writes a request and reads its response on the
// caller's goroutine. http.Transport keeps two goroutines per connection, and handing a small request
// over to them costs more than the rest of it.
package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Options are the limits of a Transport.
type Options struct {
	Dial    time.Duration // limit for a dial, with the handshake of TLS
	Idle    time.Duration // idle connections are closed after this time
	MaxIdle int           // idle connections kept
	MaxHead int64         // bytes of a response's head; 0 means 1 MiB
}

const (
	// maxHead is the default of Options.MaxHead.
	maxHead = 1 << 20

	// maxSent is the size of a request body that is sent before the response is read. It fits the
	// buffers of the kernel, so that a server that does not read it does not block the request.
	maxSent = 16 << 10
)

// A Transport sends requests to one server. It leaves to http.Transport what needs two directions at
// once, or a proxy: upgrades and long request bodies.
type Transport struct {
	host    string // with the port
	tls     *tls.Config
	dialer  net.Dialer
	maxHead int64
	idle    idle
	long    *http.Transport
	proxied bool
}

// New returns a transport to the server at a base URL, whose scheme is http or https.
func New(base *url.URL, o Options) *Transport {
	t := &Transport{
		dialer:  net.Dialer{Timeout: o.Dial},
		maxHead: cmp.Or(o.MaxHead, maxHead),
		idle:    idle{most: o.MaxIdle, limit: o.Idle},
		long: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: o.Dial}).DialContext,
			TLSHandshakeTimeout:    o.Dial,
			IdleConnTimeout:        o.Idle,
			MaxIdleConnsPerHost:    o.MaxIdle,
			MaxResponseHeaderBytes: o.MaxHead,
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

// RoundTrip implements http.RoundTripper. The URL of the request must be below the base URL. Where a
// server has closed an idle connection, RoundTrip sends the request again by another one; it does not
// repeat a request that the server may have read, except a GET.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.proxied || r.ContentLength > maxSent || r.ContentLength < 0 || r.Header.Get("Upgrade") != "" {
		return t.long.RoundTrip(r)
	}
	for {
		c := t.idle.take()
		reused := c != nil
		if !reused {
			var err error
			if c, err = t.dial(r.Context()); err != nil {
				if r.Body != nil {
					_ = r.Body.Close()
				}
				return nil, ended(r.Context(), err)
			}
		}
		response, err := c.exchange(r)
		if err == nil {
			return response, nil
		}
		if r.Context().Err() != nil || !reused || c.answered || r.Method != http.MethodGet {
			return nil, ended(r.Context(), err)
		}
	}
}

// CloseIdleConnections closes the connections that are not in use.
func (t *Transport) CloseIdleConnections() {
	t.idle.closeAll()
	t.long.CloseIdleConnections()
}

// dial opens a connection.
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

// ended returns the error of a context that has ended, or err.
func ended(ctx context.Context, err error) error { return cmp.Or(ctx.Err(), err) }
