package web

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"

	"github.com/tipcache/tipcache/proxy/lane"
)

// Listener listens for clients. It accepts a bounded number at once; those beyond
// wait in the kernel's queue.
type Listener struct {
	*net.TCPListener
	lane  *lane.Lane          // nil: none
	slots *semaphore.Weighted // nil: any number
	open  context.Context     //nolint:containedctx // until Close
	close context.CancelFunc
}

// Listen opens the listener; fast is nil for no fast lane, and most is 0 for no
// limit of connections.
func Listen(ctx context.Context, addr string, fast *lane.Lane, most int) (*Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	c := &Listener{TCPListener: l.(*net.TCPListener), lane: fast} //nolint:forcetypeassert // of that network
	c.open, c.close = context.WithCancel(context.WithoutCancel(ctx))
	if most > 0 {
		c.slots = semaphore.NewWeighted(int64(most))
	}
	return c, nil
}

// Accept waits for a client, and before that for a slot.
func (l *Listener) Accept() (net.Conn, error) {
	release := func() {}
	if l.slots != nil {
		if l.slots.Acquire(l.open, 1) != nil {
			return nil, net.ErrClosed
		}
		release = func() { l.slots.Release(1) }
	}
	conn, err := l.AcceptTCP()
	if err != nil {
		release()
		return nil, err
	}
	return NewConn(conn, l.lane, release), nil
}

// Close ends Accept.
func (l *Listener) Close() error {
	l.close()
	return l.TCPListener.Close()
}

// FollowConnections tells connections their states, and shows how near the public
// listener is to its limit: at the limit, nothing else does.
func FollowConnections(r prometheus.Registerer, most int) func(net.Conn, http.ConnState) {
	f := promauto.With(r)
	f.NewGauge(prometheus.GaugeOpts{Name: "tipcache_http_connections_limit", Help: "Connections of clients that are accepted at once; 0 is no limit."}).Set(float64(most))
	connections := f.NewGauge(prometheus.GaugeOpts{Name: "tipcache_http_connections", Help: "Connections of clients, idle ones included."})
	return func(c net.Conn, state http.ConnState) {
		ConnState(c, state)
		switch state {
		case http.StateNew:
			connections.Inc()
		case http.StateClosed, http.StateHijacked:
			connections.Dec()
		}
	}
}
