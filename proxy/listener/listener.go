// Package listener accepts the connections of clients. Each connection takes a slot,
// and clients that send requests have slots before clients that are idle:
//
//   - Where all are taken, connections are closed (slots.go): first those of clients
//     that have taken nothing of their answer for longest, and then connections that were
//     idle for longest. Idle is a connection whose request is not being answered,
//     counted from when the client was last heard; a stream of events is not.
//   - Once more than half are taken, an address has a share of them. A client that
//     exceeds it loses a connection of its own that is closed so, or the new one.
//   - Where none can be closed, one client waits for a slot, and the others wait
//     behind it in the kernel's queue.
//
// outgoing.go counts what clients have not read yet, and closes connections where that is too much.
//
// certificate.go has the certificate of a listener with TLS, and secure.go the handshakes.
package listener

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options configure a Listener.
type Options struct {
	Most    int                   // connections at once; 0: any number
	Share   int                   // of one address, of which an IPv6 /64 counts as one, once more than half of Most are taken; default a twentieth of Most, at least 16
	Exempt  func(netip.Addr) bool // tells of an address that the share is not for; nil: loopback
	Lane    web.Lane              // answers what memory can; nil: none
	Memory  limits.Memory         // for answers, that those take from which clients have not read yet; nil: any amount
	TLS     *tls.Config           // nil: none. The http.Server's has the same protocols
	Header  time.Duration         // how long a handshake of TLS may take; 0: any time
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none
	Name    string                // of what is served, in the names of metrics; default http
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "http")
	o.Share = cmp.Or(o.Share, max(16, o.Most/20))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Exempt == nil {
		o.Exempt = netip.Addr.IsLoopback
	}
	return o
}

// A Listener listens for clients. Its http.Server is given web.ConnContext and
// web.ConnState.
type Listener struct {
	*net.TCPListener
	lane    web.Lane
	slots   *slots
	secured *secured // nil: without TLS

	outgoing *outgoing // nil: without Memory
}

// Listen opens the listener.
func Listen(ctx context.Context, addr string, o Options) (*Listener, error) {
	lc := listenConfig()
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	o = o.withDefaults()
	ours := &Listener{TCPListener: l.(*net.TCPListener), lane: o.Lane, slots: newSlots(o)} //nolint:forcetypeassert // of that network
	if o.Memory != nil {
		ours.outgoing = watchOutgoing(ours.slots, o.Memory)
	}
	if o.TLS != nil {
		ours.secured = secure(ours, o)
	}
	return ours, nil
}

// Accept waits for a client, and for a slot for it; with TLS for its handshake, while others do theirs.
func (l *Listener) Accept() (net.Conn, error) {
	if l.secured != nil {
		return l.secured.accept()
	}
	s, err := l.accept(l.lane)
	if err != nil {
		return nil, err
	}
	return s.conn, nil
}

// accept gives the slot of a client.
func (l *Listener) accept(fast web.Lane) (*slot, error) {
	for {
		accepted, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if !l.slots.await() {
			_ = accepted.Close()
			return nil, net.ErrClosed
		}
		s := l.slots.slotFor(accepted.RemoteAddr())
		s.conn = web.NewConn(accepted, fast, func() { l.slots.release(s) })
		if l.slots.occupy(s) {
			return s, nil
		}
		_ = accepted.Close()
	}
}

// Close ends Accept, and the handshakes under way.
func (l *Listener) Close() error {
	l.slots.close()
	err := l.TCPListener.Close()
	if l.secured != nil {
		l.secured.close()
	}
	if l.outgoing != nil {
		l.outgoing.close()
	}
	return err
}
