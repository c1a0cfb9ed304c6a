package chain

import (
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// lately is for how long a row that has answered is believed to work.
const lately = time.Minute

// goodInputs are the last two different inputs that a row answered.
type goodInputs struct {
	mu   sync.Mutex
	last [2]goodInput // the newest first
}

type goodInput struct {
	path, query string
	at          time.Time
}

// judge takes note of a node's answer, and says whose fault a failure of unknown text
// is. It is the input's if the row answered another input lately, the node reads
// something else at that height, and this key has no good answer. The answer is
// node.Rejected then. Otherwise the row is believed to work no longer.
func (g *goodInputs) judge(q *question, a *node.Answer, prev *cache.Entry, now time.Time) *node.Answer {
	switch a.Reason {
	case node.OK, node.NotFound:
		g.answered(goodInput{q.Path, q.RawQuery, now})
	case node.Other:
		if prev != nil && prev.Status == http.StatusOK {
			g.forget()
		} else if a.Sound && g.has(q, now) {
			rejected := *a
			rejected.Reason, rejected.Status = node.Rejected, node.Rejected.Status()
			return &rejected
		}
	default:
	}
	return a
}

func (g *goodInputs) answered(in goodInput) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first := &g.last[0]; first.path != in.path || first.query != in.query {
		g.last[1] = *first
	}
	g.last[0] = in
}

func (g *goodInputs) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = [2]goodInput{}
}

// has tells whether another input than a question's was answered lately.
func (g *goodInputs) has(q *question, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, in := range g.last {
		if (in.path != q.Path || in.query != q.RawQuery) && now.Sub(in.at) < lately {
			return true
		}
	}
	return false
}
