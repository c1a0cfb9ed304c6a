package upstream

import "net/http"

// NewClient makes the HTTP client of an origin. A redirect is an answer like any
// other: to follow one would tell another host the key that is in a header or, by
// the Referer, in the URL.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
