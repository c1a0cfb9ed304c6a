package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tipcache/tipcache/proxy/lane"
)

// forwardedFor is where proxies on the way leave whom they were asked by, the
// nearest one last.
const forwardedFor = "X-Forwarded-For"

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

// ClientNetwork names what a request's client is limited by.
func (a *Admission) ClientNetwork(r *http.Request) string { return networkOf(a.clientOf(r)) }

// clientOf is the client of a request, behind the proxies that are trusted.
func (a *Admission) clientOf(r *http.Request) netip.Addr {
	return clientOf(r.RemoteAddr, r.Header[forwardedFor], a.limits.Load().TrustedProxies)
}

// clientAgain is that of a request that came again, on any connection.
func (a *Admission) clientAgain(r *repetition, hit *lane.Hit) netip.Addr {
	remote, _ := hit.Conn.RemoteAddr().(*net.TCPAddr)
	if trusted := a.limits.Load().TrustedProxies; remote == nil || len(r.forwarded) > 0 && len(trusted) > 0 {
		return clientOf(hit.Conn.RemoteAddr().String(), r.forwarded, trusted)
	}
	return remote.AddrPort().Addr().Unmap().WithZone("")
}

// hop reads an address, with or without a port.
func hop(text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		withPort, _ := netip.ParseAddrPort(text)
		addr = withPort.Addr()
	}
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

// networkOf names what a client is limited by: its IPv4 address, or its IPv6
// network, of whose addresses it can take any.
func networkOf(client netip.Addr) string {
	if client.Is6() {
		network, _ := client.Prefix(64)
		return network.String()
	}
	return client.String()
}
