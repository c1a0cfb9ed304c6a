package listener

import (
	"cmp"
	"slices"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
)

// closeSome closes up to so many of the connections that may be, and says how many:
// those of clients that do not read, or else idle ones, the longest so first.
func (s *slots) closeSome(most int, may func(*slot) bool) (closed int, why string) {
	if closed = s.closeOldest(most, may, (*web.Conn).Stalled, (*web.Conn).Abort); closed > 0 {
		return closed, "stalled"
	}
	return s.closeOldest(most, may, (*web.Conn).Idle, (*web.Conn).Close), "idle"
}

// closeOldest closes up to so many connections of a kind that may be closed: the
// ones that are of it for longest.
func (s *slots) closeOldest(most int, may func(*slot) bool, is func(*web.Conn) (time.Time, bool), end func(*web.Conn) error) int {
	type quiet struct {
		conn  *web.Conn
		since time.Time
	}
	var found []quiet
	s.mu.Lock()
	for n := range s.taken {
		if since, ok := is(n.conn); ok && may(n) {
			found = append(found, quiet{n.conn, since})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(found, func(a, b quiet) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	found = found[:min(most, len(found))]
	for _, q := range found {
		_ = end(q.conn) // which releases the slot
	}
	return len(found)
}
