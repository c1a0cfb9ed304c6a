package devnet

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// maxAsked bounds how many different things a tally tells apart.
const maxAsked = 50_000

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

// A tally counts what a node is asked. The zero value is ready.
type tally struct {
	mu     sync.Mutex
	counts map[Asked]int64 // of the first maxAsked, whose own counts are 0
	reads  int64
}

func (t *tally) count(uri string, height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	if t.counts == nil {
		t.counts = map[Asked]int64{}
	}
	key := Asked{URI: uri, Height: height}
	if _, known := t.counts[key]; known || len(t.counts) < maxAsked {
		t.counts[key]++
	}
}

// Stats says what the node was asked so far.
func (n *Node) Stats() NodeStats {
	n.asked.mu.Lock()
	defer n.asked.mu.Unlock()
	s := NodeStats{Requests: n.rest.requests.Load(), Reads: n.asked.reads, Asked: []Asked{}}
	for asked, count := range n.asked.counts {
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
