package config_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

const hexDigest = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"

func TestRates(t *testing.T) {
	tests := map[string]limits.Rate{
		"0":               {},
		"50/s":            {Requests: 50, Per: time.Second, Burst: 50},
		"300/s":           {Requests: 300, Per: time.Second, Burst: 300},
		"300/s burst 600": {Requests: 300, Per: time.Second, Burst: 600},
		"10/m burst 1":    {Requests: 10, Per: time.Minute, Burst: 1},
		"1000/h":          {Requests: 1000, Per: time.Hour, Burst: 1000},
		"05/s":            {Requests: 5, Per: time.Second, Burst: 5},
		"2147483647/s":    {Requests: 2147483647, Per: time.Second, Burst: 2147483647},
	}
	for text, want := range tests {
		got, err := config.ParseRate(text)
		if err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "0/s", "1/d", "1.5/s", "1/s burst", "1/s burst 0", "1/s burst 3601", "1/h burst 2", "00/s", "2147483648/s", "99999999999/s", " 1/s", "300/", "50", "50 burst 100"} {
		if got, err := config.ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", text, got)
		}
	}
}

func TestProblemOfRateWithoutUnitSuggestsOne(t *testing.T) {
	wantProblem(t, "http: {rate: 50}", `http.rate: "50" has no unit: write 50/s`)
}

func TestMissingCometIsRefusedWithExample(t *testing.T) {
	wantProblem(t, "chain: {nodes: [http://node:1317]}", "chain.comet: not set: name the CometBFT")
}

func TestKeyLines(t *testing.T) {
	tests := map[string]limits.Key{
		"web:" + hexDigest:                        {Name: "web"},
		"a.b-c_1:" + hexDigest:                    {Name: "a.b-c_1"},
		"x:" + hexDigest + ":5/s burst 10":        {Name: "x", Rate: limits.Rate{Requests: 5, Per: time.Second, Burst: 10}},
		"X:" + strings.ToUpper(hexDigest):         {Name: "X"},
		strings.Repeat("n", 64) + ":" + hexDigest: {Name: strings.Repeat("n", 64)},
	}
	for line, want := range tests {
		want.SHA256 = sha256.Sum256([]byte("password"))
		got, err := config.ParseAPIKey(line)
		if err != nil || got != want {
			t.Errorf("ParseAPIKey(%q) = %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"", "web", ":" + hexDigest, "web:" + hexDigest[1:], "web:" + hexDigest + ":", "web:" + hexDigest + ":fast", "web:" + hexDigest + ":0", "a b:" + hexDigest,
		"web:" + hexDigest + ":1/s:1/s", "web:" + hexDigest + "\n", strings.Repeat("n", 65) + ":" + hexDigest,
	} {
		if _, err := config.ParseAPIKey(line); err == nil {
			t.Errorf("ParseAPIKey(%q) = nil, want an error", line)
		}
	}
}

// An error must not repeat the line, which may be a key.
func FuzzKeyLine(f *testing.F) {
	f.Add("web:" + hexDigest)
	f.Add("web:" + hexDigest + ":300/s burst 600")
	f.Add("web:0x" + hexDigest + ":1/s")
	f.Fuzz(func(t *testing.T, line string) {
		_, err := config.ParseAPIKey(line)
		if digest := strings.SplitN(line, ":", 3); err != nil && len(digest) > 1 && len(digest[1]) > 20 && strings.Contains(err.Error(), digest[1]) {
			t.Errorf("ParseAPIKey(%q) = %v, want it without the digest", line, err)
		}
	})
}

func TestAccessSettingsAreValidated(t *testing.T) {
	const other = "1111111111111111111111111111111111111111111111111111111111111111"
	tests := []struct {
		name, file string
		want       string // part of the error, or "" for success
	}{
		{"keys with one name and one rate", "collections: {keys: [web:" + hexDigest + ":5/s, web:" + other + ":5/s]}", ""},
		{"keys with one name and two rates", "collections: {keys: [web:" + hexDigest + ":5/s, web:" + other + "]}", "collections.keys[1]: keys with the same name share a rate"},
		{"one key with two names", "collections: {keys: [web:" + hexDigest + ", app:" + hexDigest + "]}", "collections.keys[1]: the key of app is listed twice"},
		{"rate without unit", "http: {rate: 50}", "has no unit"},
		{"invalid rate", "http: {rate: fast}", `http.rate: "fast" is not a rate: expected 300/s, 300/s burst 600 or 1000/h, or 0 for no limit`},
		{"indexer with another server's store", "{collections: {store: 'https://x.example', auth: none}, index: {enabled: true}}", "collections.store: is another server"},
		{"networks and addresses of proxies", "http: {trusted_proxies: [10.0.0.0/8, 192.0.2.1, 'fd00::/8']}", ""},
		{"invalid network", "http: {trusted_proxies: [10.0.0.0/8, nginx]}", `http.trusted_proxies[1]: "nginx" is neither`},
		{"auth by keys without keys", "chain: {auth: keys}", "chain.auth: keys needs collections.keys"},
		{"admin on loopback without token", "admin: '[::1]:9090'", ""},
		{"admin on localhost without token", "admin: localhost:9090", ""},
		{"admin on all IPv4 addresses without token", "admin: 0.0.0.0:9090", "admin_token: required"},
		{"admin on all addresses without token", "admin: ':9090'", "admin_token: required"},
		{"admin on all addresses with token none", "{admin: ':9090', admin_token: none}", ""},
		{"short token", "admin_token: hunter2", "admin_token: has 7 characters; expected at least 16"},
		{"admin on all addresses with token", "{admin: ':9090', admin_token: 0123456789abcdef}", ""},
		{"no admin listener", "admin: none", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(config.Sources{File: writeFile(t, tt.file)})
			wantError(t, err, tt.want)
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), hexDigest)) {
				t.Errorf("error = %v, want no secret in it", err)
			}
		})
	}
}

func TestErrorOfAKeysRateDoesNotOfferZero(t *testing.T) {
	_, err := config.ParseAPIKey("web:" + hexDigest + ":fast")
	expect.Equal(t, fmt.Sprint(err), `"fast" is not a rate: expected 300/s, 300/s burst 600 or 1000/h`, "error")
}

func TestAccessRules(t *testing.T) {
	perSecond := limits.Rate{Requests: 5, Per: time.Second, Burst: 5}
	burst := limits.Rate{Requests: 5, Per: time.Second, Burst: 9}
	for line, want := range map[string]limits.Rule{
		"deny net_info":            {Deny: true, Patterns: []string{"net_info"}},
		"allow  /staking/* *":      {Patterns: []string{"/staking/*", "*"}},
		"limit 5/s tx_*":           {Rate: perSecond, Patterns: []string{"tx_*"}},
		"limit 5/s burst 9 a":      {Rate: burst, Patterns: []string{"a"}},
		"limit 5/s cost 3 a":       {Rate: perSecond, Cost: 3, Patterns: []string{"a"}},
		"cost 3 a.v1.Query/B":      {Cost: 3, Patterns: []string{"a.v1.Query/B"}},
		"cost 2 cost":              {Cost: 2, Patterns: []string{"cost"}},
		"deny cosmos.*.Query/Get*": {Deny: true, Patterns: []string{"cosmos.*.Query/Get*"}},
	} {
		want.Text = line
		got := expect.Value(config.ParseRule(line))(t)
		expect.NoDiff(t, got, want, "ParseRule(%q)", line)
	}
	for line, want := range map[string]string{
		"":                   "does not begin with",
		"net_info":           "does not begin with",
		"deny":               "names no path or method",
		"limit net_info":     "is not a rate",
		"limit 0 net_info":   "limits nothing: use deny",
		"limit 5/s":          "names no path or method",
		"limit 5/s burst":    "is not a rate",
		"cost none a":        "is not a cost",
		"cost 0 a":           "is not a cost",
		"deny staking/pool/": "is neither a path",
		"deny http://x/y":    "is neither a path",
		"deny a-b":           "is neither a path",

		"deny /staking/validators/{validator_addr}":  "has a variable, but rules have * for any characters: write /staking/validators/*",
		"limit 1/s /cosmos/tx/v1beta1/txs/{hash=**}": "write /cosmos/tx/v1beta1/txs/*",
		"allow /a/{b}/c/{d}":                         "write /a/*/c/*",
	} {
		_, err := config.ParseRule(line)
		expect.Contains(t, fmt.Sprint(err), want, "error of ParseRule(%q)", line)
	}
	wantProblem(t, "chain: {nodes: [http://n:1317], comet: [none]}\naccess: [deny tx, let tx]", `access[1]: "let tx" does not begin with`)
}

func TestMappedNetworksAreNetworksOfIPv4(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:10.1.2.3":      "10.1.2.3/32",
		"::ffff:10.1.2.3/104":  "10.0.0.0/8",
		"::ffff:10.1.2.3/128":  "10.1.2.3/32",
		"10.1.2.3/8":           "10.0.0.0/8",
		"fd00::1/8":            "fd00::/8",
		"::ffff:10.1.2.3/95":   "",
		"::ffff:10.1.2.3/1000": "",
	} {
		network, err := config.ParseNetwork(text)
		if want == "" {
			if err == nil {
				t.Errorf("ParseNetwork(%s) = %v, want an error", text, network)
			}
			continue
		}
		if err != nil || network.String() != want {
			t.Errorf("ParseNetwork(%s) = %v, %v; want %s", text, network, err, want)
		}
	}
}
