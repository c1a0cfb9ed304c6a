package upstream

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// NewClient returns an HTTP client for an upstream. It does not follow redirects, because this would reveal keys in
// headers, or in the URL through Referer, to another host. An unrequested switch of protocols is an error: the data after
// it is not a body, and no deadline would end it.
//
// The client adds headers to every request, and the trace of its context unless the request names one. It hides secrets in
// response headers, in bodies of responses other than 200 OK, and in errors of the transport, which quote invalid input. It
// does not change bodies of 200 OK. With a nil hide the caller must redact.
func NewClient(transport http.RoundTripper, headers http.Header, hide *strings.Replacer) *http.Client {
	return &http.Client{
		Transport:     guarded{transport, headers, hide},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// MarkRepeatable marks a request that only reads, so that the transport sends it again if the server has closed an idle
// connection, whatever its method is. The mark is the one of package net/http, and is not sent.
func MarkRepeatable(r *http.Request) { r.Header["X-Idempotency-Key"] = nil }

// IsRepeatable reports whether a transport may send a request again.
func IsRepeatable(r *http.Request) bool {
	_, marked := r.Header["X-Idempotency-Key"]
	return r.Method == http.MethodGet || marked && r.GetBody != nil
}

// NewTransport returns a transport for upstreams that may use HTTP/2. It keeps at most maxIdle idle connections to a host.
func NewTransport(maxIdle int) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute,
	}
}

// HeaderValues returns the values of headers that may be credentials, for [NewRedactor].
func HeaderValues(headers http.Header) (values []string) {
	for _, one := range headers {
		values = append(values, one...)
	}
	return slices.DeleteFunc(values, func(value string) bool { return len(value) < minSecret })
}

var errSwitched = errors.New("upstream switched protocols without a request to do so")

// A guarded transport is the transport of a client of NewClient.
type guarded struct {
	http.RoundTripper
	headers http.Header
	hide    *strings.Replacer
}

// RoundTrip implements http.RoundTripper.
func (t guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	passes := trace.SpanContextFromContext(ctx).IsValid() && r.Header["Traceparent"] == nil
	if passes || len(t.headers) > 0 {
		r = r.Clone(ctx)
		maps.Copy(r.Header, t.headers)
	}
	if passes {
		PassTrace(ctx, r.Header)
	}
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, RedactError(err, t.hide)
	}
	if response.StatusCode == http.StatusSwitchingProtocols && r.Header.Get("Upgrade") == "" {
		_ = response.Body.Close()
		return nil, errSwitched
	}
	if t.hide != nil {
		t.redact(response)
	}
	return response, nil
}

// CloseIdleConnections implements the interface that http.Client.CloseIdleConnections uses.
func (t guarded) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

// maxRefusal is the maximum size of a redacted body in bytes. Longer bodies are truncated.
const maxRefusal = 1 << 20

func (t guarded) redact(response *http.Response) {
	for _, values := range response.Header {
		for i, value := range values {
			values[i] = t.hide.Replace(value)
		}
	}
	if status := response.StatusCode; status == http.StatusOK || status == http.StatusSwitchingProtocols {
		return
	}
	rest := io.LimitReader(response.Body, maxRefusal)
	body, _ := io.ReadAll(rest) // the next read returns the error
	text := strings.NewReader(t.hide.Replace(string(body)))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(text, rest), response.Body}
	response.ContentLength = -1
	response.Header.Del("Content-Length")
}
