package listener

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
)

// atOnce is the part of the slots that is given up at once: to find the connections
// that were stalled or idle for longest, all are looked at.
const atOnce = 128

// slots are the connections that are open, with room for a bounded number.
type slots struct {
	o       Options
	metrics *metrics
	lack    lack

	mu       sync.Mutex
	taken    map[*slot]struct{}
	held     map[netip.Addr]int // by client
	released *sync.Cond         // wakes Accept
	closed   bool
}

// A slot is held by one connection.
type slot struct {
	conn   *web.Conn
	client netip.Addr // its address, or that of its IPv6 /64
	exempt bool       // from the share
}

func (s *slots) slotFor(a net.Addr) *slot {
	tcp, _ := a.(*net.TCPAddr) // a TCPListener accepts no others
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	n := &slot{client: addr, exempt: s.o.Exempt(addr)}
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		n.client = network.Addr()
	}
	return n
}

func newSlots(o Options) *slots {
	s := &slots{o: o, lack: lack{log: o.Logger, most: o.Most, closed: map[string]int{}}, taken: map[*slot]struct{}{}, held: map[netip.Addr]int{}}
	s.released = sync.NewCond(&s.mu)
	s.metrics = newMetrics(o, s.open)
	return s
}

// open counts the connections.
func (s *slots) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}

// await returns once a slot is free, for which it closes connections of clients that
// do not read, and idle ones; false says that the listener was closed. Only Accept
// takes slots, one after the other.
func (s *slots) await() bool {
	for tries := 0; ; tries++ {
		if full, closed := s.state(); closed || !full {
			return !closed
		}
		gone, why := s.closeSome(max(1, s.o.Most/atOnce), func(*slot) bool { return true })
		s.metrics.closed.WithLabelValues(why).Add(float64(gone))
		s.lack.tell(why, gone)
		if gone > 0 {
			continue
		}
		if tries == 0 {
			s.metrics.waits.Inc()
		}
		s.pause()
	}
}

func (s *slots) state() (full, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full(), s.closed
}

func (s *slots) full() bool { return s.o.Most > 0 && len(s.taken) >= s.o.Most }

// recheck is how often connections that were all busy are looked at again: one may
// have become idle or stalled, which releases no slot.
const recheck = 100 * time.Millisecond

// pause returns when a slot is released, or it is time to look again.
func (s *slots) pause() {
	defer time.AfterFunc(recheck, s.released.Broadcast).Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() && !s.closed {
		s.released.Wait()
	}
}

// occupy puts a connection into a slot; false says that its client holds its share.
func (s *slots) occupy(n *slot) bool {
	s.mu.Lock()
	exceeds := s.o.Most > 0 && len(s.taken) > s.o.Most/2 && s.held[n.client] >= s.o.Share && !n.exempt
	s.mu.Unlock()
	if exceeds {
		if gone, _ := s.closeSome(1, func(other *slot) bool { return other.client == n.client }); gone == 0 {
			s.metrics.closed.WithLabelValues("refused").Inc()
			return false
		}
		s.metrics.closed.WithLabelValues("share").Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[n] = struct{}{}
	s.held[n.client]++
	return true
}

// replace has a slot held by another connection on the same socket.
func (s *slots) replace(n *slot, by *web.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.conn = by
}

// release gives a slot back.
func (s *slots) release(n *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.taken[n]; !ok {
		return
	}
	delete(s.taken, n)
	if s.held[n.client]--; s.held[n.client] == 0 {
		delete(s.held, n.client)
	}
	s.released.Signal()
}

func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.released.Broadcast()
}
