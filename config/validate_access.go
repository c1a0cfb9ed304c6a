package config

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
)

// origins checks the texts that the Origin header of browsers is compared with. A text that no
// browser sends would silently allow no page.
func (v *validation) origins(key string, origins []string) {
	v.check(len(origins) > 0, key, "at least one is needed; write none to allow no page")
	each(key, origins, func(item, origin string) {
		if origin == "*" || origin == "none" {
			v.check(len(origins) == 1, key, "%s cannot be combined with other origins", origin)
		} else {
			v.check(isOrigin(origin) || isOriginPattern(origin), item, "%q is not an origin as browsers send it, such as https://app.example or chrome-extension://ID: a scheme and a host in lower case, and a port unless it is the default. https://*.app.example stands for all hosts with one more label", origin)
		}
	})
}

// isOrigin reports whether a browser may send a text in the header Origin. Pages of extensions and
// apps have their own schemes.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || text != u.Scheme+"://"+u.Host || u.Hostname() == "" || strings.ToLower(text) != text {
		return false
	}
	defaultPort := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return !slices.Contains([]string{"ftp", "file", "ws", "wss"}, u.Scheme) && !strings.ContainsAny(u.Host, "*") &&
		!strings.HasSuffix(u.Host, ":") && (u.Port() == "" || u.Port() != defaultPort)
}

// isOriginPattern reports whether a text is the origin of a domain with a star in place of its first label.
func isOriginPattern(text string) bool {
	domain, ok := strings.CutPrefix(text, web.OriginPattern)
	if !ok || !isOrigin("https://"+domain) {
		return false
	}
	u, _ := url.Parse("https://" + domain) // isOrigin has parsed it
	return net.ParseIP(u.Hostname()) == nil && !strings.HasPrefix(domain, ".") && !strings.HasSuffix(u.Hostname(), ".")
}

// access checks keys, rates, networks, origins, the admin token and TLS.
func (v *validation) access(c Config) {
	v.check(c.Chain.Auth != "keys" || len(c.Collections.Keys) > 0, "chain.auth", "keys needs collections.keys")
	v.keys(c.Collections.Keys)
	v.rate("collections.rate", c.Collections.Rate)
	v.rate("http.rate", c.HTTP.Rate)
	v.check(c.HTTP.ProxyProtocol != "required" || len(c.HTTP.TrustedProxies) > 0, "http.proxy_protocol", "required, but http.trusted_proxies is empty, so no client could connect")
	each("http.trusted_proxies", c.HTTP.TrustedProxies, func(key, network string) {
		_, err := ParseNetwork(network)
		v.check(err == nil, key, "%v", err)
	})
	each("access", c.Access, func(key, line string) {
		rule, err := ParseRule(line)
		v.check(err == nil, key, "%v", err)
		problem, affordable := c.unaffordable(rule)
		v.check(problem == "" || affordable, key, "%s", problem)
	})
	v.origins("http.cors_origins", c.HTTP.CORSOrigins)
	v.admin(c.Admin, c.AdminToken)
	// The files are read when the listeners open, so that bad ones block no reload.
	v.check((c.HTTP.TLS.Cert == "") == (c.HTTP.TLS.Key == ""), "http.tls", "set both cert and key, or neither")
}

// keys checks that each key has one name, and each name one rate.
func (v *validation) keys(lines []string) {
	seen, rates := map[[32]byte]bool{}, map[string]limits.Rate{}
	each("collections.keys", lines, func(at, line string) {
		k, err := ParseAPIKey(line)
		if v.check(err == nil, at, "%v", err); err != nil {
			return
		}
		v.check(!seen[k.SHA256], at, "the key of %s is listed twice", k.Name)
		rate, named := rates[k.Name]
		v.check(!named || rate == k.Rate, at, "keys with the same name share a rate, but %s has two rates", k.Name)
		seen[k.SHA256], rates[k.Name] = true, k.Rate
	})
}

func (v *validation) rate(key, value string) {
	_, err := ParseRate(value)
	v.check(err == nil, key, "%v, or 0 for no limit", err)
}

// minSecret is the minimum length of a secret, in bytes.
const minSecret = 16

func (v *validation) admin(address, token string) {
	if address == "none" || token == "none" {
		return
	}
	v.check(token == "" || len(token) >= minSecret, "admin_token", "has %d characters; expected at least %d", len(token), minSecret)
	v.check(token != "" || isLoopback(address), "admin_token",
		"required, because other machines can reach admin (%s): set a token, or set admin: none", address)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // reported elsewhere
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
