// Package fallback passes requests for paths that a mount of the chain lacks to another service, such as the indexer of a
// front end. Responses are not cached. Each is read completely before it is sent: one that is too long or truncated becomes
// a failure in the form of the route.
package fallback

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// Name is the route name of fallbacks in metrics and logs.
const Name = "fallback"

// Limits of a response.
const (
	timeout = 15 * time.Second
	maxBody = 10 << 20
)

// Service receives the requests that are passed on. Its connections are closed when the process ends.
type Service struct {
	Outage *upstream.Outage // of the service

	base    string // base path of the mount
	target  *url.URL
	passed  []string // further request headers to pass on
	stack   *web.Stack
	client  http.RoundTripper
	waiters *limits.Places
	memory  *account.Part // for bodies
}

// New returns the service at target for the mount at base, which has no trailing slash. passed are request headers to pass on in
// addition to those that concern only the response.
func New(target *url.URL, base string, passed []string, stack *web.Stack, memory *account.Account) *Service {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10}
	return &Service{
		Outage: upstream.NewOutage(stack.Logger(), "fallback "+target.Host),
		base:   base, target: target, passed: passed, stack: stack,
		client:  upstream.NewClient(transport, nil, nil).Transport,
		waiters: stack.Admission.NewPlaces("wait for the fallback service"),
		memory:  memory.Part(account.Upstream, memory.Limit()/4, memory.Limit()/16),
	}
}

// Serve handles a request of the route, which must allow only GET and HEAD.
func (f *Service) Serve(r *web.Request) error {
	if isAmbiguous(r.URL.Path) {
		return &failure.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(r.URL.Path)}
	}
	leave, err := f.waiters.Enter(&r.Record.Client, time.Second)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), min(timeout, time.Until(f.stack.Deadline(r.Record.Start))))
	defer cancel()
	call := &call{Service: f, from: r, header: http.Header{}, hold: f.memory.Open(r.Record.Client.Name(), f.stack.Admission.IsMany(&r.Record.Client))}
	defer call.hold.Close()
	passing := httputil.ReverseProxy{
		Rewrite: call.rewrite, Transport: f.client, ModifyResponse: call.read, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { call.err = err },
	}
	request := r.Clone(ctx)
	request.Header.Del("Upgrade") // the reverse proxy refuses some values as if the service had failed
	passing.ServeHTTP(call, request)
	if r.Context().Err() != nil {
		return r.Context().Err() // the client has disconnected
	}
	if call.err != nil && upstream.KindOf(call.err) == 0 {
		call.err = upstream.Silence("the fallback service", call.err)
	}
	switch upstream.KindOf(call.err) {
	case upstream.Unreachable, upstream.Timeout:
		f.Outage.Record(call.err)
	default: // the service answered
		f.Outage.End()
	}
	if call.err != nil {
		return call.err
	}
	call.send()
	return nil
}

// isAmbiguous reports whether servers may interpret a decoded path differently. Some servers ignore the rest of a segment after ;.
func isAmbiguous(path string) bool {
	return web.AmbiguousPart(path) != "" || slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool {
		name, _, _ := strings.Cut(segment, ";")
		return name == "."
	})
}

// call is one request to a service. It is the [http.ResponseWriter] of the reverse proxy, which sets the status
// and the headers of the final response.
type call struct {
	*Service
	from   *web.Request
	header http.Header
	status int
	body   []byte
	hold   *account.Hold // memory of body
	err    error
}

// passedHeaders are the request headers that are passed on, in addition to conditions (If-*). All others may be secrets, or make the
// service read another path, method or client address than this server.
var passedHeaders = []string{
	"Accept", "Accept-Language", "Accept-Encoding", "Content-Type", "Range", "Origin", "User-Agent", "Traceparent", respond.RequestIDHeader,
}

func (f *Service) passes(name string) bool {
	return slices.Contains(passedHeaders, name) || strings.HasPrefix(name, "If-") || slices.Contains(f.passed, name)
}

// letsStore reports whether a header of this name may let a cache store a response.
func letsStore(name string) bool {
	return strings.HasSuffix(name, "Cache-Control") || slices.Contains([]string{"Surrogate-Control", "Expires", "X-Accel-Expires"}, name)
}

func (call *call) rewrite(r *httputil.ProxyRequest) {
	u := *call.target
	// The query of r.Out lacks the parameters that Go cannot parse.
	u.Path, u.RawPath, u.RawQuery = strings.TrimSuffix(u.Path, "/")+r.In.URL.Path, "", r.In.URL.RawQuery
	if since := call.from.Options[web.SinceParameter]; since != nil { // not a poll here
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+url.Values{web.SinceParameter: since}.Encode(), "&")
	}
	r.Out.Method, r.Out.URL, r.Out.Host = http.MethodGet, &u, ""
	r.Out.Body, r.Out.ContentLength, r.Out.TransferEncoding = http.NoBody, 0, nil
	maps.DeleteFunc(r.Out.Header, func(name string, _ []string) bool { return !call.passes(name) })
	r.SetXForwarded()
	if client := call.stack.Admission.AddressOf(r.In); client.IsValid() {
		r.Out.Header.Set("X-Forwarded-For", client.String())
	}
	if call.stack.IsSecure(r.In) {
		r.Out.Header.Set(session.ForwardedProto, "https")
	}
}

// read reads the body of the response, so that a truncated one is an error.
func (call *call) read(r *http.Response) (err error) {
	tooLarge := r.ContentLength > maxBody
	if !tooLarge {
		call.body, err = call.hold.ReadAll(io.LimitReader(r.Body, maxBody+1), maxBody)
		tooLarge = len(call.body) > maxBody
	}
	switch {
	case errors.Is(err, account.ErrFull), errors.Is(err, account.ErrShare):
		return &upstream.Error{Kind: upstream.Overloaded, Msg: "too many responses of upstreams are being read", Err: err}
	case tooLarge:
		return &upstream.Error{Kind: upstream.BadAnswer, Msg: "the response of the fallback service is larger than 10 MiB"}
	case err != nil:
		return err
	}
	r.Body, r.Trailer = http.NoBody, nil
	call.redirect(r)
	return nil
}

// redirect rewrites a redirect to a path below the service's address to the same path of the mount. A path with two slashes at its
// beginning would be another host.
func (call *call) redirect(r *http.Response) {
	location, err := r.Location()
	if err != nil || location.Scheme != call.target.Scheme || location.Host != call.target.Host {
		return
	}
	if path, ok := strings.CutPrefix(location.Path, strings.TrimSuffix(call.target.Path, "/")); ok && (path == "" || path[0] == '/') {
		r.Header.Set("Location", (&url.URL{Path: call.base + "/" + strings.TrimLeft(path, "/"), RawQuery: location.RawQuery, Fragment: location.Fragment}).String())
	}
}

func (call *call) Header() http.Header { return call.header }

func (call *call) WriteHeader(status int) { call.status = status }

func (call *call) Write(b []byte) (int, error) { return len(b), nil }

// dropped are the response headers that are not passed on: this server sets them itself, or they concern the service's host.
var dropped = []string{
	"Set-Cookie", "Content-Length", "Alt-Svc", "Strict-Transport-Security", respond.RequestIDHeader,
	session.Header, session.ResetHeader, limits.StatusHeader, limits.PolicyHeader,
}

// send sends the response without the dropped headers. If it needed a key, no cache may store it.
func (call *call) send() {
	h, keyed := call.from.ResponseHeader, call.from.Record.Keyed
	for name, values := range call.header {
		switch {
		case slices.Contains(dropped, name), strings.HasPrefix(name, "Access-Control-"), keyed && letsStore(name):
		case name == "Vary":
			h[name] = append(slices.Clip(h[name]), values...)
		default:
			h[name] = values
		}
	}
	h.Set("Cache-Status", "tipcache; fwd=bypass")
	if keyed {
		h.Set("Cache-Control", "no-store")
	}
	if call.status == http.StatusNoContent || call.status == http.StatusNotModified {
		call.from.Writer.WriteHeader(call.status)
		return
	}
	call.from.Send(call.status, cmp.Or(call.header.Get("Content-Type"), "application/octet-stream"), call.body)
}
