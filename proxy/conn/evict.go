package conn

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// atOnce divides the slots into batches that are closed at once, because a search for the longest idle or stalled
// connections visits all of them.
const atOnce = 128

// await closes stalled and idle connections until a slot is free. It returns false if the listener was closed.
func (l *Listener) await() bool {
	for tries := 0; ; tries++ {
		if full, closed := l.state(); closed || !full {
			return !closed
		}
		idleFor := recheck
		if tries > 0 { // so that busy clients cannot hold all slots
			idleFor = 0
		}
		gone, why := l.closeSome(max(1, l.o.Most/atOnce), idleFor, func(*slot) bool { return true })
		l.metrics.closed.WithLabelValues(why).Add(float64(gone))
		l.logShortage(why, gone)
		if gone > 0 {
			continue
		}
		if tries == 0 {
			l.metrics.waits.Inc()
		}
		l.pause()
	}
}

// recheck is the interval of checks while all connections are busy. One may become idle or stalled, which releases no
// slot. At the first check, one that became idle less than recheck ago counts as busy: http.Server may not have sent the end of
// its response, or may have read a part of its next request.
const recheck = 100 * time.Millisecond

// pause waits until a slot is released, or for recheck.
func (l *Listener) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer time.AfterFunc(recheck, func() {
		l.mu.Lock() // which Wait releases, so that it is not woken before it waits
		defer l.mu.Unlock()
		l.released.Broadcast()
	}).Stop()
	if l.full() && l.ended.Err() == nil {
		l.released.Wait()
	}
}

// evictFor closes another connection of the same client. It returns false if none can be closed.
func (l *Listener) evictFor(s *slot) bool {
	gone, _ := l.closeSome(1, 0, func(other *slot) bool { return other != s && other.client == s.client })
	if gone == 0 {
		l.metrics.closed.WithLabelValues("refused").Inc()
		return false
	}
	l.metrics.closed.WithLabelValues("share").Inc()
	return true
}

// closeSome closes up to most of the connections that may be closed, and returns how many: stalled ones or, if there are
// none, those idle for at least idleFor, the longest stalled or idle first.
func (l *Listener) closeSome(most int, idleFor time.Duration, may func(*slot) bool) (closed int, why string) {
	if closed = l.closeOldest(most, may, (*Conn).Stalled, (*Conn).Abort); closed > 0 {
		return closed, "stalled"
	}
	isIdle := func(c *Conn) (time.Time, bool) {
		since, idle := c.Idle()
		return since, idle && time.Since(since) >= idleFor
	}
	return l.closeOldest(most, may, isIdle, (*Conn).Close), "idle"
}

// closeOldest closes up to most of the connections that may be closed and for which is returns true, the earliest first.
// end must not block, because Accept waits for it.
func (l *Listener) closeOldest(most int, may func(*slot) bool, is func(*Conn) (time.Time, bool), end func(*Conn) error) int {
	type quiet struct {
		conn  *Conn
		since time.Time
	}
	var found []quiet
	l.mu.Lock()
	for n := range l.slots {
		if since, ok := is(n.conn); ok && may(n) {
			found = append(found, quiet{n.conn, since})
		}
	}
	l.mu.Unlock()
	slices.SortFunc(found, func(a, b quiet) int { return a.since.Compare(b.since) })
	found = found[:min(most, len(found))]
	for _, q := range found {
		_ = end(q.conn) // releases the slot
	}
	return len(found)
}

// slotShortage is the state of the log line about a lack of slots. Only Accept uses it.
type slotShortage struct {
	log    rate.Sometimes
	closed map[string]int // since the last line, by cause
}

// logShortage logs at most once a minute.
func (l *Listener) logShortage(why string, closed int) {
	s := &l.shortage
	s.closed[why] += closed
	s.log.Do(func() {
		l.o.Logger.Warn("connections are short", "limit", l.o.Most, "closed_stalled", s.closed["stalled"], "closed_idle", s.closed["idle"])
		clear(s.closed)
	})
}
