package config

import (
	"net"

	"github.com/tipcache/tipcache/proxy/limits"
)

// access checks keys, rates, networks, origins and the admin token.
func (v *validation) access(c Config) {
	v.check(c.Chain.Auth != "keys" || len(c.Collections.Keys) > 0, "chain.auth", "keys needs collections.keys")
	v.keys(c.Collections.Keys)
	v.rate("collections.rate", c.Collections.Rate)
	v.rate("http.rate", c.HTTP.Rate)
	each("http.trusted_proxies", c.HTTP.TrustedProxies, func(key, network string) {
		_, err := ParseNetwork(network)
		v.check(err == nil, key, "%v", err)
	})
	v.origins("http.cors_origins", c.HTTP.CORSOrigins)
	v.admin(c.Admin, c.AdminToken)
	v.check((c.HTTP.TLS.Cert == "") == (c.HTTP.TLS.Key == ""), "http.tls", "cert and key go together: set both or none")
}

// keys checks that no key has two names, and no name two rates.
func (v *validation) keys(lines []string) {
	seen, rates := map[[32]byte]bool{}, map[string]limits.Rate{}
	each("collections.keys", lines, func(at, line string) {
		k, err := ParseAPIKey(line)
		if v.check(err == nil, at, "%v", err); err != nil {
			return
		}
		v.check(!seen[k.SHA256], at, "the key of %s is there twice", k.Name)
		rate, named := rates[k.Name]
		v.check(!named || rate == k.Rate, at, "the keys of %s share a rate, but are given two", k.Name)
		seen[k.SHA256], rates[k.Name] = true, k.Rate
	})
}

func (v *validation) rate(key, value string) {
	_, err := ParseRate(value)
	v.check(err == nil, key, "%v", err)
}

// leastToken is the length of a token, in characters, that cannot be guessed.
const leastToken = 16

func (v *validation) admin(address, token string) {
	if address == "none" || token == "none" {
		return
	}
	v.check(token == "" || len(token) >= leastToken, "admin_token", "%d characters are too few: %d at least", len(token), leastToken)
	v.check(token != "" || isLoopback(address), "admin_token",
		"needed, since admin (%s) can be reached from other machines: set it, or say none", address)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // a problem that is reported elsewhere
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
