package devnet

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// NodeStats are the numbers of requests to a node since the start.
type NodeStats struct {
	Requests   int64       `json:"requests"` // at the REST server, failed ones included
	Reads      int64       `json:"reads"`    // requests that read the state
	ReadCounts []ReadCount `json:"asked"`    // most frequent first
}

// ReadCount is the number of requests for one URI at one height.
type ReadCount struct {
	URI    string `json:"uri"` // path and query as received
	Height int64  `json:"height"`
	Count  int64  `json:"count"`
}

// Of returns the number of reads whose URI begins with prefix.
func (s NodeStats) Of(prefix string) (n int64) {
	for _, a := range s.ReadCounts {
		if strings.HasPrefix(a.URI, prefix) {
			n += a.Count
		}
	}
	return n
}

// A Tally counts reads. The zero value is ready.
type Tally struct {
	Most   int // maximum number of different reads to count; default 50,000
	mu     sync.Mutex
	counts map[ReadCount]int64 // by read, with a zero Count
	reads  int64
}

// Count counts a read of uri at height.
func (t *Tally) Count(uri string, height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	if t.counts == nil {
		t.counts = map[ReadCount]int64{}
	}
	key := ReadCount{URI: uri, Height: height}
	if _, known := t.counts[key]; known || len(t.counts) < cmp.Or(t.Most, 50_000) {
		t.counts[key]++
	}
}

// Stats returns the numbers of requests so far.
func (n *Node) Stats() NodeStats {
	s := n.asked.Stats()
	s.Requests = n.rest.requests.Load()
	return s
}

// Stats returns the counted reads.
func (t *Tally) Stats() NodeStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := NodeStats{Reads: t.reads, ReadCounts: []ReadCount{}}
	for asked, count := range t.counts {
		asked.Count = count
		s.ReadCounts = append(s.ReadCounts, asked)
	}
	slices.SortFunc(s.ReadCounts, func(a, b ReadCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Height, a.Height), cmp.Compare(a.URI, b.URI))
	})
	return s
}

// A notice wakes its watchers after a change. The zero value is ready.
type notice struct {
	lock sync.Mutex
	next chan struct{} // closed at the next change
}

// changes returns a channel that is closed at the next change. Call it before reading the state, so that no change is
// missed.
func (n *notice) changes() <-chan struct{} {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// signal wakes the watchers.
func (n *notice) signal() {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
