package limits

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
)

// A Client is the address and the key that a request is counted by.
type Client struct {
	Address netip.Addr // not valid where the connection has none
	Key     Key        // of no name where none is required
}

// An owner is whose requests go together: a network's, or those of a key's name.
type owner struct {
	kind    string     // address, key, or rule
	name    string     // of a key, or of a rule and the client
	network netip.Addr // or its first address
}

// ownerOf is the name that a client is limited by without a key: its IPv4 address, or its
// IPv6 network, of whose addresses it can take any.
func ownerOf(client netip.Addr) owner {
	return owner{kind: "address", network: NetworkOf(client)}
}

// NetworkOf is an IPv4 address itself, or the first address of the /64 of an IPv6 address.
func NetworkOf(client netip.Addr) netip.Addr {
	if !client.Is6() {
		return client
	}
	network, _ := client.Prefix(64)
	return network.Addr()
}

// String names the owner to others.
func (o *owner) String() string {
	switch {
	case o.name != "":
		return o.name
	case o.network.Is6():
		return o.network.String() + "/64"
	}
	return o.network.String()
}

// ForwardedFor is where proxies on the way leave the address of their client, the
// nearest one last.
const ForwardedFor = "X-Forwarded-For"

// Address is the address a request is counted under: that of its connection, the
// peer, or, behind proxies that are trusted, the last address in X-Forwarded-For
// that is not one of theirs. Whatever stands before it, the client may have made up.
// It is not valid where the connection has no address.
func (a *Admission) Address(peer netip.Addr, forwarded []string) netip.Addr {
	trusted := a.Limits.Load().TrustedProxies
	if len(trusted) == 0 {
		return peer
	}
	from, way := peer, strings.Join(forwarded, ",")
	for way != "" && isAmong(trusted, from) {
		cut := strings.LastIndexByte(way, ',')
		next := hop(strings.TrimSpace(way[cut+1:]))
		if !next.IsValid() {
			break // no address: the way is known up to the proxy that wrote it
		}
		from, way = next, way[:max(0, cut)]
	}
	return from
}

// ClientOf returns the client of a request without a key.
func (a *Admission) ClientOf(r *http.Request) *Client { return &Client{Address: a.AddressOf(r)} }

// Name names the client, by whose name clients take turns: the name on its key, if it has one, or else its network.
func (c *Client) Name() string {
	if c.Key.Name != "" {
		return "key " + c.Key.Name
	}
	return c.Network()
}

// Network names what the client is limited by without a key: its IPv4 address, or the /64 of its IPv6 address.
func (c *Client) Network() string {
	who := ownerOf(c.Address)
	return who.String()
}

// AddressOf is the Address of a request, whatever its connection.
func (a *Admission) AddressOf(r *http.Request) netip.Addr {
	return a.Address(hop(r.RemoteAddr), r.Header[ForwardedFor])
}

// Trusts tells whether an address is that of a trusted proxy.
func (a *Admission) Trusts(addr netip.Addr) bool {
	return isAmong(a.Limits.Load().TrustedProxies, addr)
}

// hop reads an address as proxies write it: with or without a port, in brackets, or in quotes.
func hop(text string) netip.Addr {
	text = strings.Trim(text, `"`)
	if strings.IndexByte(text, ':') >= 0 {
		if withPort, err := netip.ParseAddrPort(text); err == nil {
			return withPort.Addr().Unmap().WithZone("")
		}
	}
	if bare, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(bare, "]")
	}
	addr, _ := netip.ParseAddr(text) // not valid if it is none
	return addr.Unmap().WithZone("")
}

func isAmong(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// IsMany reports whether a client stands for others: it has no key, and the address of this
// machine or of a trusted proxy.
func (a *Admission) IsMany(c *Client) bool {
	return c.Key.Name == "" && (c.Address.IsLoopback() || a.Trusts(c.Address))
}

// KeyHeader carries the key of a client.
const KeyHeader = "X-Api-Key"

// A Key lets its bearer ask. Several keys may share a name,
// so that one can take over from another.
type Key struct {
	Name   string            // whose it is; logged, unlike the key
	SHA256 [sha256.Size]byte // digest of the key: the key itself is not kept
	Rate   Rate              // how often it may ask; zero: Limits.Key
}

func (k *Key) owner() owner { return owner{kind: "key", name: k.Name} }

// keyOf returns the key a request comes with.
func (a *Admission) keyOf(r *http.Request) (Key, error) {
	presented, why := r.Header.Get(KeyHeader), "the "+KeyHeader+" is not valid"
	if found, known := a.KeyOf(presented); known {
		return found, nil
	}
	switch {
	case len(*a.keys.Load()) == 0:
		why = "this is closed, for no API key is configured: " +
			"whoever runs the server adds a key to collections.keys (tipcache key new NAME makes one) or sets collections.auth to none"
	case presented == "":
		why = "the " + KeyHeader + " header is required"
	}
	return Key{}, &failure.Failure{Expected: true, Status: http.StatusUnauthorized, Public: why}
}

// KeyOf is the key in force that is presented. How long it takes does not depend
// on how much of a key was guessed: digests are compared, and always all of them.
func (a *Admission) KeyOf(presented string) (found Key, known bool) {
	var room [64]byte // of an ordinary key
	digest := sha256.Sum256(append(room[:0], presented...))
	for _, key := range *a.keys.Load() {
		if subtle.ConstantTimeCompare(key.SHA256[:], digest[:]) == 1 {
			found, known = key, presented != ""
		}
	}
	return found, known
}

// AdmitKey lets clients pass that have a key, for as long as the name on it may ask,
// and says so as AdmitAddress does.
func (a *Admission) AdmitKey(r *http.Request, answer http.Header) (Key, error) {
	key, err := a.keyOf(r)
	if err != nil {
		return Key{}, err
	}
	return key, a.admit(r.Context(), limit{key.owner(), a.rateOf(key)}, 1, answer)
}

func (a *Admission) rateOf(key Key) Rate {
	if key.Rate != (Rate{}) {
		return key.Rate
	}
	return a.Limits.Load().Key
}
