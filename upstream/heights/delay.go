package heights

import (
	"slices"
	"time"
)

// Bounds of the judgement whether a node's headers are late.
const (
	leastDelays = 3  // headers, before any is judged
	mostOverdue = 10 // intervals: a chain that stands still for longer does so by itself
)

// delays are how long after their own time the headers of a node arrived. What is usual is
// the median of the last ones: an absent proposer makes some blocks late.
type delays struct {
	last           [15]time.Duration
	count          int
	at             time.Time     // when the newest came; zero: no other is expected
	interval       time.Duration // between blocks, then
	punctual, late int64
}

// arrive takes in a header's delay.
func (d *delays) arrive(delay time.Duration, now time.Time, interval time.Duration) {
	late := d.overdue(now)
	if d.count >= leastDelays && delay > d.usual()+interval/2 {
		late = max(late, 1)
	}
	if d.late += late; late == 0 {
		d.punctual++
	}
	d.last[d.count%len(d.last)] = delay
	d.count++
	d.at, d.interval = now, interval
}

func (d *delays) usual() time.Duration {
	sorted := d.last
	known := sorted[:min(d.count, len(sorted))]
	slices.Sort(known)
	return known[len(known)/2]
}

// overdue is for how many intervals the next header should have come by now. One that is
// half an interval late is so for the first.
func (d *delays) overdue(now time.Time) int64 {
	if d.at.IsZero() || d.count < leastDelays {
		return 0
	}
	return min(max(int64((now.Sub(d.at)-d.interval/2)/d.interval), 0), mostOverdue)
}

// Headers counts the headers that the node streamed as close behind their own time as
// usual, and headers that came later or are overdue. Neither count falls.
func (n *Node) Headers() (punctual, late int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delays.punctual, n.delays.late + n.delays.overdue(time.Now())
}

// arrived notes a header that the node streamed.
func (n *Node) arrived(header time.Time, interval time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.delays.arrive(now.Sub(header), now, interval)
}

// unsubscribed notes that no header is expected any more.
func (n *Node) unsubscribed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state.Connected = false
	n.delays.late += n.delays.overdue(time.Now())
	n.delays.at = time.Time{}
}
