package session

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tipcache/tipcache/proxy/limits"
)

// Clients knows the blocks that clients have seen, by their cookies and by the events that were sent to them. After an
// event about a block, no read of the client may be older on any connection: the client may not notice that a response is
// stale.
type Clients struct {
	admission  *limits.Admission
	useCookies bool

	hasListeners atomic.Bool // saves the lock while there are none

	mu        sync.RWMutex
	listeners map[string]*EventClient // by the network of the client's address
}

// NewClients returns Clients whose browsers keep their session in a cookie if useCookies is true.
func NewClients(admission *limits.Admission, useCookies bool) *Clients {
	return &Clients{admission: admission, useCookies: useCookies, listeners: map[string]*EventClient{}}
}

// IsSecure reports whether the client uses TLS, to us or to a trusted proxy.
func (c *Clients) IsSecure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	scheme, _, _ := strings.Cut(r.Header.Get(ForwardedProto), ",")
	return strings.EqualFold(strings.TrimSpace(scheme), "https") && c.IsFromProxy(r)
}

// ForwardedProto is the header in which a proxy names the scheme of a request.
const ForwardedProto = "X-Forwarded-Proto"

// IsFromProxy reports whether a trusted proxy sent the request.
func (c *Clients) IsFromProxy(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && c.admission.Trusts(peer.Addr().Unmap().WithZone(""))
}

// An EventClient stands for all clients of one network while one of them is notified about blocks by events.
type EventClient struct {
	clients *Clients
	network string
	open    int // number of connections; guarded by clients.mu
	seen    Seen
}

// Listen records that a client is notified about blocks over its connection. The caller must call Close.
func (c *Clients) Listen(r *http.Request) *EventClient {
	network := c.admission.ClientOf(r).Network()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listeners[network]
	if l == nil {
		l = &EventClient{clients: c, network: network}
		c.listeners[network] = l
	}
	l.open++
	c.hasListeners.Store(true)
	return l
}

// Announce records the block of an event before the event is sent.
func (l *EventClient) Announce(epoch, height int64) {
	l.seen.advance(seenBlock{epoch: epoch, height: height})
}

// Close removes one connection.
func (l *EventClient) Close() {
	c := l.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.open--; l.open == 0 {
		delete(c.listeners, l.network)
		c.hasListeners.Store(len(c.listeners) > 0)
	}
}

// NotifiedBlock returns the newest block of an epoch that the client of a request was notified about by an event; 0 for
// none. givenUp means that an earlier wait for it has failed.
func (c *Clients) NotifiedBlock(r *http.Request, epoch int64) (height int64, givenUp bool) {
	l := c.listener(r)
	if l == nil {
		return 0, false
	}
	seen := l.seen.load()
	if seen.epoch != epoch {
		return 0, false
	}
	return seen.height, seen.givenUp
}

// GiveUpOn records that waiting for a block that the client of a request was notified about has failed.
func (c *Clients) GiveUpOn(r *http.Request, epoch, height int64) {
	if l := c.listener(r); l != nil {
		l.seen.advance(seenBlock{epoch: epoch, height: height, givenUp: true})
	}
}

// listener returns the event client that sent a request, nil for none.
func (c *Clients) listener(r *http.Request) *EventClient {
	if !c.hasListeners.Load() {
		return nil
	}
	network := c.admission.ClientOf(r).Network()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.listeners[network]
}
