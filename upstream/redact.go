package upstream

import (
	"net/url"
	"strings"
)

// minSecret is the length from which a part of a URL may be a credential: parts
// such as "v3" and "rpc" stay readable.
const minSecret = 6

// NewRedactor returns a replacer for texts that come from an origin, or from the
// transport to it, on their way to the log. It hides the secrets given, and every
// part of the URL that may be one: user, password, elements of the path and
// values of the query. Origins echo credentials as they came, in lower or upper
// case, or escaped. Texts have to be redacted before they are cut. The URL may be
// nil.
func NewRedactor(u *url.URL, secrets ...string) *strings.Replacer {
	var pairs []string
	for _, secret := range append(secretsOf(u), secrets...) {
		for _, spelled := range []string{secret, url.PathEscape(secret), url.QueryEscape(secret), strings.ToLower(secret), strings.ToUpper(secret)} {
			if spelled != "" {
				pairs = append(pairs, spelled, "***")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

func secretsOf(u *url.URL) (secrets []string) {
	if u == nil {
		return nil
	}
	password, _ := u.User.Password()
	parts := append(strings.Split(u.Path, "/"), u.User.Username(), password)
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
