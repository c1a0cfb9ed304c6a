package proxy_test

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
)

var (
	once    = limits.Rate{Requests: 1, Per: time.Hour, Burst: 1}
	proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
)

// reach says how a request is met that comes by these ways.
func reach(h http.Handler, remote string, forwarded ...string) int {
	r := httptest.NewRequest(http.MethodGet, "/nowhere", nil)
	r.RemoteAddr = remote
	r.Header["X-Forwarded-For"] = forwarded
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestClientsAreToldApartByTheirAddress(t *testing.T) {
	type way struct {
		remote    string
		forwarded []string
	}
	from := func(remote string, forwarded ...string) way { return way{remote, forwarded} }
	tests := []struct {
		name string
		a, b way
		same bool
	}{
		{"two ports of an address are one client", from("192.0.2.1:1"), from("192.0.2.1:2"), true},
		{"two addresses are two", from("192.0.2.1:1"), from("192.0.2.2:1"), false},
		{"two of an IPv6 /64 are one", from("[2001:db8::1]:1"), from("[2001:db8::ffff:0:0:2]:1"), true},
		{"two of two /64 are two", from("[2001:db8::1]:1"), from("[2001:db8:0:1::1]:1"), false},
		{"an IPv4 address in IPv6 dress is the same", from("192.0.2.1:1"), from("[::ffff:192.0.2.1]:1"), true},
		{"a zone makes no difference", from("[fe80::1%eth0]:1"), from("[fe80::1%eth1]:1"), true},
		{"a stranger is not believed", from("192.0.2.1:1", "198.51.100.1"), from("192.0.2.1:1", "198.51.100.2"), true},
		{"a trusted proxy is", from("10.0.0.1:1", "198.51.100.1"), from("10.0.0.1:1", "198.51.100.2"), false},
		{"which proxy does not matter", from("10.0.0.1:1", "198.51.100.1"), from("10.0.0.2:1", "198.51.100.1"), true},
		{"nor do several on the way", from("10.0.0.1:1", "198.51.100.1"), from("[fd00::1]:1", "198.51.100.1, 10.9.9.9 ,10.8.8.8"), true},
		{"nor on several lines", from("10.0.0.1:1", "198.51.100.1"), from("10.0.0.1:1", "198.51.100.1", "10.9.9.9"), true},
		{"what the client wrote itself is passed over", from("10.0.0.1:1", "1.1.1.1, 198.51.100.1"), from("10.0.0.1:1", "2.2.2.2", "198.51.100.1"), true},
		{"an address may have its port", from("10.0.0.1:1", "198.51.100.1:80"), from("10.0.0.1:1", "198.51.100.1"), true},
		{"an IPv6 one, too", from("10.0.0.1:1", "[2001:db8::1]:80"), from("10.0.0.1:1", "2001:db8::2"), true},
		{"nonsense ends the way at who wrote it", from("10.0.0.1:1", "198.51.100.1, unknown"), from("10.0.0.1:1", "198.51.100.2, _hidden"), true},
		{"a proxy that says nothing is a client", from("10.0.0.1:1"), from("10.0.0.1:1", ""), true},
		{"a proxy may be a client of another", from("10.0.0.1:1", "10.0.0.2"), from("10.0.0.2:1"), true},
		{"those without an address are one", from("@"), from(""), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newChainProxy(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Address: once, TrustedProxies: proxies}}})
			if got := reach(h, tt.a.remote, tt.a.forwarded...); got != http.StatusNotFound {
				t.Fatalf("the first: status %d", got)
			}
			if got := reach(h, tt.b.remote, tt.b.forwarded...) == http.StatusTooManyRequests; got != tt.same {
				t.Errorf("taken for the same: %v", got)
			}
		})
	}
}

// FuzzForwardedFor: whatever a client claims to come from, what the trusted
// proxy before us saw decides.
func FuzzForwardedFor(f *testing.F) {
	f.Add("198.51.100.7", "198.51.100.8, 10.0.0.1")
	f.Add("", ",,,")
	f.Add("unknown", "[::1]:80")
	f.Add("10.0.0.1,10.0.0.2", "::ffff:1.2.3.4%eth0")
	h, _ := newChainProxy(f, proxy.Options{Web: web.Options{Limits: limits.Limits{Address: once, TrustedProxies: proxies}}})
	client := uint32(0x20000000)
	f.Fuzz(func(t *testing.T, claim, another string) {
		client++
		seen := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, client))).String()
		if got := reach(h, "10.0.0.1:1", claim+", "+seen); got != http.StatusNotFound {
			t.Fatalf("%q: status %d", claim, got)
		}
		if got := reach(h, "10.0.0.1:1", another, seen); got != http.StatusTooManyRequests {
			t.Errorf("%q: status %d", another, got)
		}
	})
}
