package devnet

import (
	"cmp"
	"slices"
	"sync"
)

// maxAsked bounds how many different questions a tally tells apart.
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

// A tally counts the questions a node was asked.
type tally struct {
	mu     sync.Mutex
	counts map[Asked]int64 // of the first maxAsked, whose own counts are 0
	reads  int64
}

func newTally() *tally { return &tally{counts: map[Asked]int64{}} }

func (t *tally) count(uri string, height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	key := Asked{URI: uri, Height: height}
	if _, known := t.counts[key]; known || len(t.counts) < maxAsked {
		t.counts[key]++
	}
}

func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.counts)
	t.reads = 0
}

func (t *tally) snapshot() NodeStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := NodeStats{Reads: t.reads, Distinct: len(t.counts), Asked: make([]Asked, 0, len(t.counts))}
	for q, n := range t.counts {
		s.Asked = append(s.Asked, Asked{q.URI, q.Height, n})
	}
	slices.SortFunc(s.Asked, func(a, b Asked) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Height, a.Height), cmp.Compare(a.URI, b.URI))
	})
	return s
}
