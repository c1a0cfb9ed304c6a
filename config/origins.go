package config

import (
	"fmt"
	"net/url"
	"strings"
)

// origins checks what a browser's Origin header is compared with: a text that
// differs from what browsers send would silently allow nobody.
func (v *validation) origins(key string, origins []string) {
	v.check(len(origins) > 0, key, "at least one is needed; none lets no page read answers")
	for i, origin := range origins {
		if origin == "*" || origin == "none" {
			v.check(len(origins) == 1, key, "%s goes with no other", origin)
			continue
		}
		v.check(isOrigin(origin), fmt.Sprintf("%s[%d]", key, i), "%q is not an origin such as https://app.example", origin)
	}
}

// isOrigin expects scheme, host and perhaps a port, and nothing behind them.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && !strings.Contains(u.Host, "*") &&
		u.User == nil && u.Path == "" && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && s[len(s)-1] != '#'
}
