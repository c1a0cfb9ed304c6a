package upstream

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// NewClient makes the HTTP client of an origin. A redirect is an answer like any
// other: to follow one would tell another host the key that is in a header or, by
// the Referer, in the URL. An origin that switches to another protocol unasked gets
// an error: what follows is no body, and no deadline ends it.
//
// Secrets are hidden in what the origin says of a request: in the headers, in the body of
// whatever is not 200 OK, and in errors of the transport, which repeat what they do not
// understand. What was asked for is left alone. With a nil hide the caller redacts.
func NewClient(transport http.RoundTripper, hide *strings.Replacer) *http.Client {
	return &http.Client{
		Transport:     guarded{transport, hide},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// WithHeaders returns a transport that adds headers to every request.
func WithHeaders(transport http.RoundTripper, headers http.Header) http.RoundTripper {
	if len(headers) == 0 {
		return transport
	}
	return withHeaders{transport, headers}
}

type withHeaders struct {
	http.RoundTripper
	headers http.Header
}

// RoundTrip implements http.RoundTripper.
func (t withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, t.headers)
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections is for http.Client's method of the same name.
func (t withHeaders) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

// HeaderValues returns the values of headers, for [NewRedactor].
func HeaderValues(headers http.Header) (values []string) {
	for _, one := range headers {
		values = append(values, one...)
	}
	return values
}

var errSwitched = errors.New("the origin switches to another protocol, which it was not asked to")

// guarded is the transport of a client.
type guarded struct {
	http.RoundTripper
	hide *strings.Replacer
}

// RoundTrip implements http.RoundTripper.
func (t guarded) RoundTrip(r *http.Request) (*http.Response, error) {
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

// CloseIdleConnections is for http.Client's method of the same name.
func (t guarded) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

// maxRefusal bounds the body of a refusal, in bytes. What is longer is cut.
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
	body, _ := io.ReadAll(rest) // the next read meets the error
	text := strings.NewReader(t.hide.Replace(string(body)))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(text, rest), response.Body}
	response.ContentLength = -1
	response.Header.Del("Content-Length")
}

const (
	// minSecret is the length from which a part of a URL may be a credential, unlike "v3" and "rpc".
	minSecret = 6

	// minWord is that of an element of the path that is written like a word, such as /cosmos.
	minWord = 20
)

// NewRedactor returns a replacer for texts that come from an origin, or from the
// transport to it, on their way to the log. It hides the secrets given, and every
// part of the URL that may be one: user, password, elements of the path and
// values of the query. Origins echo credentials as they came, in lower or upper
// case, escaped, or as the header that they arrived in. Texts have to be redacted
// before they are cut. The URL may be nil.
func NewRedactor(u *url.URL, secrets ...string) *strings.Replacer {
	var pairs []string
	for _, secret := range append(secretsOf(u), secrets...) {
		for _, spelled := range spellings(secret) {
			if spelled != "" {
				pairs = append(pairs, spelled, "***")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

func spellings(secret string) []string {
	quoted, _ := json.Marshal(secret) // a string always encodes
	return []string{
		secret, url.PathEscape(secret), url.QueryEscape(secret), strings.ToLower(secret), strings.ToUpper(secret),
		strings.Trim(string(quoted), `"`),
	}
}

func secretsOf(u *url.URL) (secrets []string) {
	if u == nil {
		return nil
	}
	parts := []string{u.User.Username()}
	if password, ok := u.User.Password(); ok {
		both := u.User.Username() + ":" + password
		parts = append(parts, u.User.String(), both, base64.StdEncoding.EncodeToString([]byte(both)), password)
	}
	for element := range strings.SplitSeq(u.Path, "/") {
		if len(element) >= minWord || strings.Trim(element, "abcdefghijklmnopqrstuvwxyz._-") != "" {
			parts = append(parts, element)
		}
	}
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	for _, part := range parts {
		if len(part) >= minSecret {
			secrets = append(secrets, part)
		}
	}
	return secrets
}

// RedactError hides secrets in the text of an error, and keeps what callers look
// for in it. A nil error stays nil, and a nil hide hides nothing.
func RedactError(err error, hide *strings.Replacer) error {
	if err == nil || hide == nil {
		return err
	}
	text := err.Error()
	if hidden := hide.Replace(text); hidden != text {
		return &redacted{hidden, err}
	}
	return err
}

type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

// Unwrap gives the error with the secrets, for errors.Is and errors.As.
func (r *redacted) Unwrap() error { return r.err }
