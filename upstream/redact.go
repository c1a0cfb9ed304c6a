package upstream

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
)

const (
	// minSecret is the minimum length of a part of a URL or a header that may be a credential, unlike "v3" and "1".
	minSecret = 6

	// minWord is the minimum length for path elements of lowercase letters, such as /cosmos.
	minWord = 20
)

// CheckCredentials returns an error if the user and the password in a URL may end elsewhere than url.Parse finds. Then a part
// of the password would count as the host or the path, which are printed. The error holds no part of the URL.
func CheckCredentials(raw string) error {
	_, rest, _ := strings.Cut(raw, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if strings.Count(authority, "@") > 1 || strings.Contains(rest[len(authority):], "@") {
		return errors.New("percent-encode @, /, ? and # in the user and the password, and @ anywhere else: %40, %2F, %3F and %23")
	}
	return nil
}

// NewRedactor returns a replacer that hides secrets in texts from an upstream or its transport. It hides the given secrets
// and every part of the URL that may be one: user, password, path elements and query values. It also finds them in lower or
// upper case, escaped, and encoded for basic authentication, as upstreams echo them. Texts must be redacted before they are
// truncated. The URL may be nil.
func NewRedactor(u *url.URL, secrets ...string) *strings.Replacer {
	var pairs []string
	all := append(secretsOf(u), secrets...)
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // one may begin with another
	for _, secret := range all {
		for _, encoded := range encodings(secret) {
			if encoded != "" {
				pairs = append(pairs, encoded, "***")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

func encodings(secret string) []string {
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
	var parts []string
	if u.User != nil {
		password, _ := u.User.Password()
		both := u.User.Username() + ":" + password
		parts = []string{u.User.Username(), u.User.String(), both, base64.StdEncoding.EncodeToString([]byte(both)), password}
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

// RedactError hides secrets in the text of an error. errors.Is and errors.As still work on the result. A nil error stays
// nil, and a nil hide hides nothing.
func RedactError(err error, hide *strings.Replacer) error {
	if err == nil || hide == nil {
		return err
	}
	text := err.Error()
	if hidden := hide.Replace(text); hidden != text {
		return Reword(err, hidden)
	}
	return err
}

// Reword returns an error that wraps err and has another text.
func Reword(err error, text string) error { return &reworded{text, err} }

type reworded struct {
	text string
	err  error
}

func (r *reworded) Error() string { return r.text }

// Unwrap returns the original error for errors.Is and errors.As.
func (r *reworded) Unwrap() error { return r.err }
