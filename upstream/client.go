package upstream

import (
	"errors"
	"net/http"
)

// NewClient makes the HTTP client of an origin. A redirect is an answer like any
// other: to follow one would tell another host the key that is in a header or, by
// the Referer, in the URL. An origin that switches to another protocol unasked gets
// an error: what follows is no body, and no deadline ends it.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     steady{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errSwitched = errors.New("the origin switches to another protocol, which it was not asked to")

// steady refuses 101 Switching Protocols where the request offers no other protocol.
type steady struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t steady) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || r.Header.Get("Upgrade") != "" {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errSwitched
}

// CloseIdleConnections is for http.Client's method of the same name.
func (t steady) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}
