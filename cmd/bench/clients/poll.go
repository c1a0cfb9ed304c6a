package clients

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// An Answer is what a client got, or that it got none.
type Answer struct {
	Server string // its address
	Client int
	Opened int // of the client's connections this is the one with that number
	Key    string
	Sent   time.Time
	Took   time.Duration
	Tip    int64 // newest block when the request was sent
	After  int64 // newest block when the answer had come

	Status int    // 0 without an answer
	Err    string // why there was none
	Height int64  // the block it says it is of, 0 without one
	Hash   uint64 // of the body
	Cache  string // Cache-Status without its numbers
}

// String says what was asked where, and what came of it.
func (a *Answer) String() string {
	return fmt.Sprintf("%s at %d from %s (tip %d, %d in %v, %s)", a.Key, a.Height, a.Server, a.Tip, a.Status, a.Took.Round(time.Millisecond), cmp.Or(a.Err, a.Cache))
}

// OK tells whether the answer is what was asked for.
func (a *Answer) OK() bool { return a.Status == http.StatusOK }

// Came is when the answer had come.
func (a *Answer) Came() time.Time { return a.Sent.Add(a.Took) }

// A History is what clients were answered. It is safe for concurrent use while
// clients poll.
type History struct {
	mu      sync.Mutex
	Answers []Answer // in the order in which they came
}

// All tells whether every answer to requests sent since a moment is as it should
// be. There is one at least.
func (h *History) All(since time.Time, good func(*Answer) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	some := false
	for i := len(h.Answers) - 1; i >= 0 && h.Answers[i].Came().After(since); i-- {
		if a := &h.Answers[i]; a.Sent.After(since) {
			if some = true; !good(a) {
				return false
			}
		}
	}
	return some
}

func (h *History) add(a Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Answers = append(h.Answers, a)
}

// Polling is what a number of clients do: each asks for random keys on a
// connection of its own.
type Polling struct {
	Clients int
	Keys    []string      // paths of GETs, or POST, path and body
	Alone   bool          // each client asks for one key all the time
	Pause   time.Duration // on average, between two requests of a client
	Clock   *Clock
	Server  func(client int) string // the address for a client's next request
	History *History
}

// Run polls until ctx ends. A request that was sent gets its answer.
func (p *Polling) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range p.Clients {
		all.Go(func() { p.client(ctx, i) })
	}
	all.Wait()
}

func (p *Polling) client(ctx context.Context, i int) {
	c := &Conn{Addr: p.Server(i)}
	defer c.Close()
	asking := context.WithoutCancel(ctx)
	for rig.Pause(ctx, time.Duration(float64(p.Pause)*(0.5+rand.Float64()))) {
		if server := p.Server(i); server != c.Addr {
			c.Close()
			c.Addr = server
		}
		key := rand.IntN(len(p.Keys))
		if p.Alone {
			key = i % len(p.Keys)
		}
		p.ask(asking, c, i, p.Keys[key])
	}
}

var bodySeed = maphash.MakeSeed()

func (p *Polling) ask(ctx context.Context, c *Conn, client int, key string) {
	a := Answer{Server: c.Addr, Client: client, Key: key, Sent: time.Now(), Tip: p.Clock.Tip()}
	r, err := c.Do(ctx, requestOf(key))
	a.Took, a.After, a.Opened = time.Since(a.Sent), p.Clock.Tip(), c.Opened
	if err != nil {
		a.Err = err.Error()
	} else {
		a.Status, a.Height, a.Cache = r.Status, r.Height(), outcome(r.Header.Get("Cache-Status"))
		a.Hash = maphash.Bytes(bodySeed, r.Body)
	}
	p.History.add(a)
}

func requestOf(key string) []byte {
	if post, ok := strings.CutPrefix(key, http.MethodPost+" "); ok {
		path, body, _ := strings.Cut(post, " ")
		return Request(http.MethodPost, path, body, "Content-Type: application/json")
	}
	return Request(http.MethodGet, key, "")
}

// outcome is Cache-Status without its numbers.
func outcome(status string) string {
	var words []string
	for part := range strings.SplitSeq(status, ";") {
		part = strings.TrimSpace(part)
		if name, _, _ := strings.Cut(part, "="); name != "ttl" && name != "tipcache" {
			words = append(words, part)
		}
	}
	return strings.Join(words, "; ")
}
