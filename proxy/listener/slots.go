package listener

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
)

// atOnce is the part of the slots that idle connections give up at once: to find
// those that were idle for longest, all are looked at.
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
	s := &slots{o: o, lack: lack{log: o.Logger, most: o.Most}, taken: map[*slot]struct{}{}, held: map[netip.Addr]int{}}
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

// await returns once a slot is free, for which it closes idle connections; false
// says that the listener was closed. Only Accept takes slots, one after the other.
func (s *slots) await() bool {
	for tries := 0; ; tries++ {
		if full, closed := s.state(); closed || !full {
			return !closed
		}
		gone := s.closeIdle(max(1, s.o.Most/atOnce), func(*slot) bool { return true })
		s.metrics.closed.WithLabelValues("idle").Add(float64(gone))
		s.lack.tell(gone)
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
// have become idle, which releases no slot.
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

// take puts a connection into a slot; false says that its client holds its share.
func (s *slots) take(n *slot) bool {
	s.mu.Lock()
	exceeds := s.o.Most > 0 && len(s.taken) > s.o.Most/2 && s.held[n.client] >= s.o.Share && !n.exempt
	s.mu.Unlock()
	if exceeds && s.closeIdle(1, func(other *slot) bool { return other.client == n.client }) == 0 {
		s.metrics.closed.WithLabelValues("refused").Inc()
		return false
	}
	if exceeds {
		s.metrics.closed.WithLabelValues("share").Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[n] = struct{}{}
	s.held[n.client]++
	return true
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

// closeIdle closes up to so many idle connections, of those that may be, and says
// how many: those that were idle for longest.
func (s *slots) closeIdle(most int, may func(*slot) bool) int {
	type quiet struct {
		slot  *slot
		since time.Time
	}
	var found []quiet
	s.mu.Lock()
	for n := range s.taken {
		if since, idle := n.conn.Idle(); idle && may(n) {
			found = append(found, quiet{n, since})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(found, func(a, b quiet) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	found = found[:min(most, len(found))]
	for _, q := range found {
		_ = q.slot.conn.Close() // which releases the slot
	}
	return len(found)
}
