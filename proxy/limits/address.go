package limits

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
)

// AdmitAddress lets a request pass for as long as its client's address may ask,
// and says in headers of the answer how the client stands. Without a limit every
// request passes. The error is a *failure.Failure.
func (a *Admission) AdmitAddress(ctx context.Context, client netip.Addr, answer http.Header) error {
	rate := a.Limits.Load().Address
	if rate == (Rate{}) { // a reload may have taken it away after the caller has looked
		return nil
	}
	return a.admit(ctx, ownerOf(client), rate, 1, answer)
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

// Network names what a request's client is limited by.
func (a *Admission) Network(r *http.Request) string {
	who := ownerOf(a.AddressOf(r))
	return who.String()
}

// Name names the client: the name on the request's key, if there is one, or else its
// network.
func (a *Admission) Name(r *http.Request, tenant string) string {
	if tenant != "" {
		return "key " + tenant
	}
	return a.Network(r)
}

// AddressOf is the Address of a request, whatever its connection.
func (a *Admission) AddressOf(r *http.Request) netip.Addr {
	return a.Address(hop(r.RemoteAddr), r.Header[ForwardedFor])
}

// Trusts tells whether an address is that of a trusted proxy.
func (a *Admission) Trusts(addr netip.Addr) bool {
	return isAmong(a.Limits.Load().TrustedProxies, addr)
}

// hop reads an address, with or without a port.
func hop(text string) netip.Addr {
	if strings.IndexByte(text, ':') >= 0 {
		if withPort, err := netip.ParseAddrPort(text); err == nil {
			return withPort.Addr().Unmap().WithZone("")
		}
	}
	addr, _ := netip.ParseAddr(text) // not valid if it is none
	return addr.Unmap().WithZone("")
}

func isAmong(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
