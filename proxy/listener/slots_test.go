package listener

import (
	"net"
	"net/netip"
	"testing"
)

// The machine that runs the tests need not have such addresses.
func TestClientsAreCountedByAddress(t *testing.T) {
	clientOf := func(addr string) netip.Addr {
		return slotFor(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))).client
	}
	tests := []struct {
		name, a, b string
		same       bool
	}{
		{"two ports of an address are one client", "192.0.2.1:1", "192.0.2.1:2", true},
		{"two addresses are two", "192.0.2.1:1", "192.0.2.2:1", false},
		{"two of an IPv6 /64 are one", "[2001:db8::1]:1", "[2001:db8::ffff:0:0:2]:1", true},
		{"two of two /64 are two", "[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"an IPv4 address in IPv6 dress is the same", "192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
	}
	for _, tt := range tests {
		if same := clientOf(tt.a) == clientOf(tt.b); same != tt.same {
			t.Errorf("%s: same client = %v", tt.name, same)
		}
	}
}
