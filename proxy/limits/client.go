package limits

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A Client is the address and the key that a request counts against.
type Client struct {
	Address netip.Addr // not valid if the connection has none
	Key     Key        // without a name if none is required
	Turn    uint32     // number of the share, below turnsPerKey, in which the request counts, if the key has a rate of its own
}

// turnsPerKey is the number of clients that a key with a rate of its own counts as: its holder may serve many.
const turnsPerKey = 16

// An owner is the client that a limit applies to: a network, or all keys with one name.
type owner struct {
	kind    string     // address, key, or rule
	rule    string     // text of the rule
	name    string     // of the key; "" for a network
	network netip.Addr // first address of the network
}

// ownerOf returns the owner for a client without a key: its IPv4 address, or its IPv6 /64.
func ownerOf(client netip.Addr) owner {
	return owner{kind: "address", network: NetworkOf(client)}
}

// NetworkOf returns an IPv4 address unchanged, or the first address of the /64 of an IPv6 address.
func NetworkOf(client netip.Addr) netip.Addr {
	if !client.Is6() {
		return client
	}
	network, _ := client.Prefix(64)
	return network.Addr()
}

// String returns the name of the owner in errors and Redis keys.
func (o *owner) String() string {
	switch {
	case o.name != "":
		return o.name
	case o.network.Is6():
		return o.network.String() + "/64"
	}
	return o.network.String()
}

// ForwardedFor is the header to which proxies append the address of their client.
const ForwardedFor = "X-Forwarded-For"

// Address returns the address that a request is counted under: the peer of its connection or, behind trusted proxies,
// the last address in X-Forwarded-For that is not a trusted proxy. The client may have made up the addresses before it.
// The result is not valid if the connection has no address.
func (a *Admission) Address(peer netip.Addr, forwarded []string) netip.Addr {
	trusted := a.Limits.Load().TrustedProxies
	if len(trusted) == 0 {
		return peer
	}
	from, way := peer, strings.Join(forwarded, ",")
	for way != "" && isAmong(trusted, from) {
		cut := strings.LastIndexByte(way, ',')
		text := strings.TrimSpace(way[cut+1:])
		if way = way[:max(0, cut)]; text == "" {
			continue // RFC 9110, section 5.6.1.2
		}
		next := hop(text)
		if !next.IsValid() {
			break // not an address, so the last known hop counts
		}
		from = next
	}
	return from
}

// ClientOf returns the client of a request without a key.
func (a *Admission) ClientOf(r *http.Request) *Client { return &Client{Address: a.AddressOf(r)} }

// Name returns the name by which clients take turns and have shares: the name of the client's key, with the turn if the
// key has a rate of its own, or, without a key, its network.
func (c *Client) Name() string {
	if c.Key.Rate != (Rate{}) {
		return "key " + c.Key.Name + " " + strconv.FormatUint(uint64(c.Turn), 10)
	}
	if c.Key.Name != "" {
		return "key " + c.Key.Name
	}
	return c.Network()
}

// Shares returns the names under which a client's streams are counted: its network and its Name. The network does not
// count if a key has a rate of its own.
func (c *Client) Shares() []string {
	if c.Key.Name == "" || c.Key.Rate != (Rate{}) {
		return []string{c.Name()}
	}
	return []string{c.Network(), c.Name()}
}

// Network returns the client's IPv4 address, or the /64 of its IPv6 address.
func (c *Client) Network() string {
	o := ownerOf(c.Address)
	return o.String()
}

// AddressOf returns the Address of a request.
func (a *Admission) AddressOf(r *http.Request) netip.Addr {
	return a.Address(hop(r.RemoteAddr), r.Header[ForwardedFor])
}

// Trusts reports whether an address belongs to a trusted proxy.
func (a *Admission) Trusts(addr netip.Addr) bool {
	return isAmong(a.Limits.Load().TrustedProxies, addr)
}

// hop parses an address in the forms that proxies write: with or without a port, in brackets, or in quotes.
func hop(text string) netip.Addr {
	text = strings.Trim(text, `"`)
	if strings.IndexByte(text, ':') >= 0 {
		if withPort, err := netip.ParseAddrPort(text); err == nil {
			return withPort.Addr().Unmap().WithZone("")
		}
	}
	addr, _ := netip.ParseAddr(strings.Trim(text, "[]")) // not valid if it is malformed
	return addr.Unmap().WithZone("")
}

func isAmong(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// IsMany reports whether a client may be many clients: it has no key, and the address of this machine or a trusted proxy.
func (a *Admission) IsMany(c *Client) bool {
	return c.Key.Name == "" && (c.Address.IsLoopback() || a.Trusts(c.Address))
}
