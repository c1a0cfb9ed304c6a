package limits

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// AdmitAddress lets a request pass for as long as its client's address may ask,
// and says in headers of the answer how the client stands. The error is a
// *Refusal.
func (a *Admission) AdmitAddress(r *http.Request, answer http.Header) error {
	rate := a.limits.Load().Address
	if rate == (Rate{}) {
		return nil
	}
	return a.admit(r.Context(), ownerOf(a.Address(r)), rate, answer)
}

// ForwardedFor is where proxies on the way leave whom they were asked by, the
// nearest one last.
const ForwardedFor = "X-Forwarded-For"

// clientOf is the address a request is counted under: that of the connection
// or, behind proxies that are trusted, the last address in X-Forwarded-For that
// is not one of theirs. Whatever stands before it, the client may have made up.
// It is invalid where the connection has no address.
func clientOf(remote string, forwarded []string, trusted []netip.Prefix) netip.Addr {
	from, way := hop(remote), strings.Join(forwarded, ",")
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
	who := ownerOf(a.Address(r))
	return who.String()
}

// Name names who asks: the name on the request's key, if there is one, or else its
// network.
func (a *Admission) Name(r *http.Request, tenant string) string {
	if tenant != "" {
		return "key " + tenant
	}
	return a.Network(r)
}

// Address is that of a request's client, behind the proxies that are trusted. It
// is not valid where the connection has none.
func (a *Admission) Address(r *http.Request) netip.Addr {
	return clientOf(r.RemoteAddr, r.Header[ForwardedFor], a.limits.Load().TrustedProxies)
}

// AddressBehind is the same for a request that came on a connection with these
// values of X-Forwarded-For.
func (a *Admission) AddressBehind(remote net.Addr, forwarded []string) netip.Addr {
	peer, _ := remote.(*net.TCPAddr)
	if trusted := a.limits.Load().TrustedProxies; peer == nil || len(forwarded) > 0 && len(trusted) > 0 {
		return clientOf(remote.String(), forwarded, trusted)
	}
	return peer.AddrPort().Addr().Unmap().WithZone("")
}

// Trusts tells whether an address is that of a trusted proxy.
func (a *Admission) Trusts(addr netip.Addr) bool {
	return isAmong(a.limits.Load().TrustedProxies, addr)
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
