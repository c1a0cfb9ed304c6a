package upstream

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
)

const (
	// minSecret is the length from which a part of a URL may be a credential: parts
	// such as "v3" and "rpc" stay readable.
	minSecret = 6

	// minWord is that of an element of the path which is written like a word: nodes
	// stand behind paths such as /cosmos, which occur in what they say.
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
// for in it. Nil stays nil.
func RedactError(err error, hide *strings.Replacer) error {
	if err == nil {
		return nil
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

// maxRefusal bounds the body of a refusal, in bytes. What is longer is cut.
const maxRefusal = 1 << 20

// A RedactingTransport hides secrets in what an origin says of a request: in the
// headers, in the body of whatever is not 200 OK, and in errors of the transport,
// which repeat what they do not understand. What was asked for is left alone.
type RedactingTransport struct {
	*http.Transport
	Hide *strings.Replacer
}

// RoundTrip implements http.RoundTripper.
func (t RedactingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, RedactError(err, t.Hide)
	}
	for _, values := range response.Header {
		for i, value := range values {
			values[i] = t.Hide.Replace(value)
		}
	}
	if status := response.StatusCode; status != http.StatusOK && status != http.StatusSwitchingProtocols {
		t.redactBody(response)
	}
	return response, nil
}

func (t RedactingTransport) redactBody(response *http.Response) {
	rest := io.LimitReader(response.Body, maxRefusal)
	body, _ := io.ReadAll(rest) // the next read meets the error
	text := strings.NewReader(t.Hide.Replace(string(body)))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(text, rest), response.Body}
	response.ContentLength = -1
	response.Header.Del("Content-Length")
}
