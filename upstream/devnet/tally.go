package devnet

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// maxAsked bounds how many different things a tally tells apart.
const maxAsked = 50_000

// NodeStats say what a node was asked since the start or the last reset.
type NodeStats struct {
	Requests      int64   `json:"requests"`       // at the REST server, failed ones included
	CometRequests int64   `json:"comet_requests"` // at the RPC server, websockets included
	Reads         int64   `json:"reads"`          // that reached a state
	Distinct      int     `json:"distinct"`       // pairs of a question and a height
	Asked         []Asked `json:"asked"`          // the most frequent first
}

// Asked is how often one question was asked about one height.
type Asked struct {
	URI    string `json:"uri"` // path and query as they came
	Height int64  `json:"height"`
	Count  int64  `json:"count"`
}

// A tally counts things of one kind.
type tally[K comparable] struct {
	mu     sync.Mutex
	counts map[K]int64 // of the first maxAsked
	total  int64
}

func newTally[K comparable]() *tally[K] { return &tally[K]{counts: map[K]int64{}} }

func (t *tally[K]) count(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total++
	if _, known := t.counts[key]; known || len(t.counts) < maxAsked {
		t.counts[key]++
	}
}

func (t *tally[K]) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.counts)
	t.total = 0
}

func (t *tally[K]) snapshot() (counts map[K]int64, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts), t.total
}

// Stats says what the node was asked so far.
func (n *Node) Stats() NodeStats {
	counts, reads := n.asked.snapshot()
	s := NodeStats{Requests: n.rest.requests.Load(), CometRequests: n.comet.requests.Load(), Reads: reads, Distinct: len(counts), Asked: []Asked{}}
	for asked, count := range counts {
		asked.Count = count
		s.Asked = append(s.Asked, asked)
	}
	slices.SortFunc(s.Asked, func(a, b Asked) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Height, a.Height), cmp.Compare(a.URI, b.URI))
	})
	return s
}

// ResetStats forgets what the node was asked.
func (n *Node) ResetStats() {
	n.asked.reset()
	n.rest.requests.Store(0)
	n.comet.requests.Store(0)
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
