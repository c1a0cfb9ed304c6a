package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/account"
)

// Settings are the operator's settings of each listener, with their keys in the section http.
type Settings struct {
	Most  int `yaml:"max_connections" must:"not negative" doc:"Maximum number of client connections, including idle ones, on each of the public, RPC and gRPC listeners. At the limit, the connections that were idle longest are closed; if none is idle, new ones wait. 0 means no limit. It is lower if the process may open too few files for all listeners and 1,000 more."`
	Share int `yaml:"client_connections" must:"not negative" doc:"Maximum connections per client address (per /64 for IPv6). Enforced only while more than half of max_connections are in use; trusted proxies and loopback are exempt. 0 means a twentieth of max_connections, at least 16."`
}

// DefaultSettings returns the settings of an operator who sets none.
func DefaultSettings() Settings { return Settings{Most: 10_000} }

// Options configure a Listener.
type Options struct {
	Settings
	Exempt  func(netip.Addr) bool // reports whether Share does not apply to an address; nil exempts loopback
	Lane    Lane                  // nil disables the fast lane
	Memory  *account.Account      // reserves responses that clients have not read; nil means no limit
	TLS     *tls.Config           // nil disables TLS; the http.Server must have the same protocols
	Header  time.Duration         // timeout of a TLS handshake, including the header of a proxy before it; 0 means none
	Proxies func(netip.Addr) bool // reports whether a peer is a proxy; if not nil, only proxies may connect, with the PROXY protocol
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil registers no metrics
	Name    string                // part of the names of metrics; default http
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

// A Listener listens for clients. The ConnContext of its http.Server must be [Context], and the ConnState [State].
type Listener struct {
	*net.TCPListener
	o        Options
	metrics  *metrics
	shortage slotShortage
	opener   *opener // nil without TLS and proxies

	mu        sync.Mutex
	slots     map[*slot]struct{} // of open connections
	perClient map[netip.Addr]int // slots by client
	released  *sync.Cond         // wakes Accept

	ended context.Context //nolint:containedctx // for all handshakes; ends with Close
	end   context.CancelFunc
	works sync.WaitGroup // goroutines that Close waits for
}

// Listen opens the listener.
func Listen(ctx context.Context, addr string, o Options) (*Listener, error) {
	lc := listenConfig()
	opened, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	o = o.withDefaults()
	l := &Listener{
		TCPListener: opened.(*net.TCPListener), //nolint:forcetypeassert // the network is tcp
		o:           o, shortage: slotShortage{log: rate.Sometimes{Interval: time.Minute}, closed: map[string]int{}}, slots: map[*slot]struct{}{}, perClient: map[netip.Addr]int{},
	}
	l.released = sync.NewCond(&l.mu)
	l.ended, l.end = context.WithCancel(context.WithoutCancel(ctx))
	l.metrics = newMetrics(o, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(len(l.slots))
	})
	if o.Memory != nil {
		out := &outgoing{listener: l, memory: o.Memory, log: rate.Sometimes{Interval: time.Minute}, logEvents: rate.Sometimes{Interval: time.Minute}}
		l.works.Go(out.run)
	}
	if o.TLS != nil || o.Proxies != nil {
		l.opener = &opener{listener: l, ready: make(chan accepted)}
		l.works.Go(l.opener.run)
	}
	return l, nil
}

type metrics struct {
	closed *prometheus.CounterVec
	waits  prometheus.Counter
}

func newMetrics(o Options, open func() float64) *metrics {
	f, name := promauto.With(o.Metrics), "tipcache_"+o.Name+"_connections"
	f.NewGauge(prometheus.GaugeOpts{Name: name + "_limit", Help: "Maximum number of client connections. 0 means no limit."}).Set(float64(o.Most))
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: "Open client connections, including idle ones."}, open)
	m := &metrics{
		closed: f.NewCounterVec(prometheus.CounterOpts{
			Name: name + "_closed_total",
			Help: "Connections closed by the listener, by cause: idle or stalled (not reading) to admit a new connection, share to admit one of the same address, refused (new, and its address is at its limit), proxy (without a valid header of the PROXY protocol, or from a peer that is not a trusted proxy), or memory (holding the most streams or unread responses while memory is short).",
		}, []string{"cause"}),
		waits: f.NewCounter(prometheus.CounterOpts{
			Name: name + "_waits_total",
			Help: "Number of times that new connections waited because all connections were busy.",
		}),
	}
	for _, cause := range []string{"stalled", "idle", "share", "refused", "proxy", "memory"} {
		m.closed.WithLabelValues(cause) // so that rates begin at 0
	}
	return m
}

// Accept waits for a client and for a slot for it. With TLS, it also waits for the handshake. Handshakes are concurrent.
func (l *Listener) Accept() (net.Conn, error) {
	if l.opener != nil {
		return l.opener.accept()
	}
	s, err := l.accept(l.o.Lane)
	if err != nil {
		return nil, err
	}
	return s.conn, nil
}

// accept returns the slot of the next client. Calls must not overlap.
func (l *Listener) accept(fast Lane) (*slot, error) {
	for {
		accepted, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if full, closed := l.state(); closed || full && !l.await() {
			_ = accepted.Close()
			return nil, net.ErrClosed
		}
		s := &slot{}
		c := New(accepted, fast, l.o.Memory, func() { l.release(s) })
		switch {
		case l.o.Proxies != nil && !l.o.Proxies(c.Address()):
			l.refuseProxy(c.Address(), errNoProxy)
		case l.assign(s, c):
			return s, nil
		}
		_ = c.Close()
	}
}

// A slot is held by one connection.
type slot struct {
	conn   *Conn
	client netip.Addr // the client's address, or the first one of its IPv6 /64
}

// assign assigns a slot to a connection, and counts it against the connection's client. It returns false if the slot's
// connection was closed meanwhile, or if the client has used its share and none of its other connections can be closed.
func (l *Listener) assign(s *slot, to *Conn) (ok bool) {
	l.mu.Lock()
	if _, open := l.slots[s]; open {
		l.releaseShare(s)
	} else if s.conn != nil {
		l.mu.Unlock()
		return false
	}
	s.conn, s.client = to, limits.NetworkOf(to.Address())
	exceeds := l.o.Most > 0 && len(l.slots) > l.o.Most/2 && l.perClient[s.client] >= l.o.Share && !l.o.Exempt(to.Address())
	l.slots[s] = struct{}{}
	l.perClient[s.client]++
	l.mu.Unlock()
	return !exceeds || l.evictFor(s)
}

func (l *Listener) state() (full, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full(), l.ended.Err() != nil
}

// full reports whether all slots are taken. The caller must hold mu.
func (l *Listener) full() bool { return l.o.Most > 0 && len(l.slots) >= l.o.Most }

func (l *Listener) release(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.slots[s]; !ok {
		return
	}
	delete(l.slots, s)
	l.releaseShare(s)
	l.released.Signal()
}

// releaseShare removes a slot from its client's share. The caller must hold mu.
func (l *Listener) releaseShare(s *slot) {
	if l.perClient[s.client]--; l.perClient[s.client] == 0 {
		delete(l.perClient, s.client)
	}
}

// Close ends Accept and the handshakes in progress.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.end()
	l.released.Broadcast()
	l.mu.Unlock()
	err := l.TCPListener.Close()
	l.works.Wait()
	return err
}
