package limits_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAddressIsLastOneThatIsNotATrustedProxy(t *testing.T) {
	for name, tt := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy":                        {"192.0.2.1:5000", nil, "192.0.2.1"},
		"a header of an untrusted peer":   {"192.0.2.1:5000", []string{"203.0.113.9"}, "192.0.2.1"},
		"a trusted proxy":                 {"10.0.0.1:5000", []string{"203.0.113.9"}, "203.0.113.9"},
		"a trusted proxy, without header": {"10.0.0.1:5000", nil, "10.0.0.1"},
		"an address forged by the client": {"10.0.0.1:5000", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		"two trusted proxies":             {"10.0.0.1:5000", []string{"203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		"two lines":                       {"10.0.0.1:5000", []string{"203.0.113.9", "10.0.0.2"}, "203.0.113.9"},
		"only trusted proxies":            {"10.0.0.1:5000", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3"},
		"an element that is no address":   {"10.0.0.1:5000", []string{"unknown, 10.0.0.2"}, "10.0.0.2"},
		"empty elements of the list":      {"10.0.0.1:5000", []string{"203.0.113.9, ,", ""}, "203.0.113.9"},
		"an address with a port":          {"10.0.0.1:5000", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		"an IPv6 address with a port":     {"10.0.0.1:5000", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		"an IPv6 address in brackets":     {"10.0.0.1:5000", []string{"[2001:db8::1]"}, "2001:db8::1"},
		"an address in quotes":            {"10.0.0.1:5000", []string{`"203.0.113.9:4711"`}, "203.0.113.9"},
		"a mapped IPv4 address":           {"[::ffff:10.0.0.1]:5000", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"an address with a zone":          {"[fe80::1%eth0]:5000", nil, "fe80::1"},
		"a connection without an address": {"@", nil, "invalid IP"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdmission(limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = tt.peer
			r.Header[limits.ForwardedFor] = tt.forwarded
			expect.Equal(t, a.AddressOf(r).String(), tt.want, "address")
		})
	}
}

func TestClientIsNamedByKeyOrNetwork(t *testing.T) {
	a := newAdmission(limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, tt := range []struct{ peer, key, want string }{
		{"192.0.2.1:5000", "", "192.0.2.1"},
		{"[2001:db8::7:1]:5000", "", "2001:db8::/64"},
		{"192.0.2.1:5000", "one", "key one"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.peer
		c := a.ClientOf(r)
		c.Key.Name = tt.key
		expect.Equal(t, c.Name(), tt.want, "name of %s with the key %q", tt.peer, tt.key)
	}
	for address, want := range map[netip.Addr]bool{netip.MustParseAddr("10.1.2.3"): true, client: false} {
		expect.Equal(t, a.Trusts(address), want, "Trusts(%s)", address)
	}
}
