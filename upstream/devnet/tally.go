package devnet

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// NodeStats say what a node was asked since the start.
type NodeStats struct {
	Requests int64   `json:"requests"` // at the REST server, failed ones included
	Reads    int64   `json:"reads"`    // that reached a state
	Asked    []Asked `json:"asked"`    // the most frequent first
}

// Asked is how often one question was asked about one height.
type Asked struct {
	URI    string `json:"uri"` // path and query as they came
	Height int64  `json:"height"`
	Count  int64  `json:"count"`
}

// Of is how often a URI was asked about that begins so.
func (s NodeStats) Of(prefix string) (n int64) {
	for _, a := range s.Asked {
		if strings.HasPrefix(a.URI, prefix) {
			n += a.Count
		}
	}
	return n
}

// A Tally counts what a node is asked. The zero value is ready.
type Tally struct {
	Most   int // different things that it tells apart: default 50,000
	mu     sync.Mutex
	counts map[Asked]int64 // of the first ones, whose own counts are 0
	reads  int64
}

// Count counts a question about a height.
func (t *Tally) Count(uri string, height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	if t.counts == nil {
		t.counts = map[Asked]int64{}
	}
	key := Asked{URI: uri, Height: height}
	if _, known := t.counts[key]; known || len(t.counts) < cmp.Or(t.Most, 50_000) {
		t.counts[key]++
	}
}

// Stats says what the node was asked so far.
func (n *Node) Stats() NodeStats {
	s := n.asked.Stats()
	s.Requests = n.rest.requests.Load()
	return s
}

// Stats says what was counted so far.
func (t *Tally) Stats() NodeStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := NodeStats{Reads: t.reads, Asked: []Asked{}}
	for asked, count := range t.counts {
		asked.Count = count
		s.Asked = append(s.Asked, asked)
	}
	slices.SortFunc(s.Asked, func(a, b Asked) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Height, a.Height), cmp.Compare(a.URI, b.URI))
	})
	return s
}

// A notice tells its watchers that something has changed. The zero value is ready.
type notice struct {
	lock sync.Mutex
	next chan struct{} // closed at the next change
}

// changes is closed at the next change. Taken before the state is read, it
// misses nothing.
func (n *notice) changes() <-chan struct{} {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// signal tells of a change that has been made.
func (n *notice) signal() {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
