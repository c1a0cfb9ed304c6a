package listener

import (
	"slices"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
)

// atOnce is the part of the slots that is given up at once: to find the connections
// that were stalled or idle for longest, all are looked at.
const atOnce = 128

// await returns once a slot is free, for which it closes connections of clients that
// do not read, and idle ones; false says that the listener was closed.
func (l *Listener) await() bool {
	for tries := 0; ; tries++ {
		if full, closed := l.state(); closed || !full {
			return !closed
		}
		gone, why := l.closeSome(max(1, l.o.Most/atOnce), func(*slot) bool { return true })
		l.metrics.closed.WithLabelValues(why).Add(float64(gone))
		l.tellLack(why, gone)
		if gone > 0 {
			continue
		}
		if tries == 0 {
			l.metrics.waits.Inc()
		}
		l.pause()
	}
}

// recheck is how often connections that were all busy are looked at again: one may
// have become idle or stalled, which releases no slot.
const recheck = 100 * time.Millisecond

// pause returns when a slot is released, or it is time to look again.
func (l *Listener) pause() {
	defer time.AfterFunc(recheck, l.released.Broadcast).Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full() && l.ended.Err() == nil {
		l.released.Wait()
	}
}

// makeRoomFor closes another connection of a client that holds its share; false says that none can be.
func (l *Listener) makeRoomFor(s *slot) bool {
	gone, _ := l.closeSome(1, func(other *slot) bool { return other != s && other.client == s.client })
	if gone == 0 {
		l.metrics.closed.WithLabelValues("refused").Inc()
		return false
	}
	l.metrics.closed.WithLabelValues("share").Inc()
	return true
}

// closeSome closes up to so many of the connections that may be, and says how many:
// those of clients that do not read, or else idle ones, the longest so first.
func (l *Listener) closeSome(most int, may func(*slot) bool) (closed int, why string) {
	if closed = l.closeOldest(most, may, (*conn.Conn).Stalled, (*conn.Conn).Abort); closed > 0 {
		return closed, "stalled"
	}
	return l.closeOldest(most, may, (*conn.Conn).Idle, (*conn.Conn).Close), "idle"
}

// closeOldest closes up to so many connections of a kind that may be closed: the
// ones that are of it for longest.
func (l *Listener) closeOldest(most int, may func(*slot) bool, is func(*conn.Conn) (time.Time, bool), end func(*conn.Conn) error) int {
	type quiet struct {
		conn  *conn.Conn
		since time.Time
	}
	var found []quiet
	l.mu.Lock()
	for n := range l.taken {
		if since, ok := is(n.conn); ok && may(n) {
			found = append(found, quiet{n.conn, since})
		}
	}
	l.mu.Unlock()
	slices.SortFunc(found, func(a, b quiet) int { return a.since.Compare(b.since) })
	found = found[:min(most, len(found))]
	for _, q := range found {
		_ = end(q.conn) // which releases the slot
	}
	return len(found)
}

// A lack of slots is told once a minute at most. It belongs to Accept.
type lack struct {
	told   time.Time
	closed map[string]int // since then, by cause
}

func (l *Listener) tellLack(why string, closed int) {
	l.lack.closed[why] += closed
	if now := time.Now(); now.Sub(l.lack.told) >= time.Minute {
		l.o.Logger.Warn("connections are short", "limit", l.o.Most, "closed_stalled", l.lack.closed["stalled"], "closed_idle", l.lack.closed["idle"])
		l.lack.told = now
		clear(l.lack.closed)
	}
}
