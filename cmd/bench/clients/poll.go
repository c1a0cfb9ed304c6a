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
	"github.com/tipcache/tipcache/upstream/devnet"
)

// An Answer is what a client got, or that it got none.
type Answer struct {
	Server string // its address
	Client int
	Opened int // of the client's connections this is the one with that number; 0: any, in a session
	Key    string
	Sent   time.Time
	Took   time.Duration
	Tip    int64 // newest block when the request was sent
	After  int64 // newest block when the answer had come

	Status int    // 0 without an answer
	Err    string // why there was none, or what a failure says
	Height int64  // the block it says it is of, 0 without one, or without a session in one
	Least  int64  // the block that it was to wait for, as one that its client has written in; 0: none
	Anew   bool   // its session begins anew, as the chain was rolled back
	Hash   uint64 // of the body
	Cache  string // Cache-Status without its numbers
}

// String says what was asked where, and what came of it.
func (a *Answer) String() string {
	return fmt.Sprintf("%s at %d from %s (tip %d, %d in %v, %s)", a.Key, a.Height, a.Server, a.Tip, a.Status, a.Took.Round(time.Millisecond), cmp.Or(a.Err, a.Cache))
}

// OK reports whether the answer is what was asked for.
func (a *Answer) OK() bool { return a.Status == http.StatusOK }

// Came is when the answer had come.
func (a *Answer) Came() time.Time { return a.Sent.Add(a.Took) }

// A History is what clients were answered. It is safe for concurrent use while
// clients poll.
type History struct {
	mu      sync.Mutex
	Answers []Answer // in the order in which they came
}

// All reports whether every answer to requests sent since a moment is as it should
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
	Keys    []string // paths of GETs, or POST, path and body
	TLS     bool
	Session bool          // each client sends back its newest session, and closes its connection now and then
	Pause   time.Duration // on average, between two requests of a client
	Chain   *devnet.Devnet
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
	c, s := &Conn{Addr: p.Server(i), TLS: p.TLS}, &session{}
	defer c.Close()
	asking := context.WithoutCancel(ctx)
	for rig.Pause(ctx, time.Duration(float64(p.Pause)*(0.5+rand.Float64()))) {
		if server := p.Server(i); server != c.Addr || p.Session && rand.IntN(20) == 0 {
			c.Close()
			c.Addr = server
		}
		p.ask(asking, c, s, i, p.Keys[rand.IntN(len(p.Keys))])
	}
}

var bodySeed = maphash.MakeSeed()

func (p *Polling) ask(ctx context.Context, c *Conn, s *session, client int, key string) {
	a := Answer{Server: c.Addr, Client: client, Key: key, Sent: time.Now(), Tip: p.Chain.Height()}
	var headers []string
	if p.Session {
		headers, a.Least = s.headers(a.Tip)
	}
	r, err := c.Do(ctx, requestOf(key, headers...))
	a.Took, a.After, a.Opened = time.Since(a.Sent), p.Chain.Height(), c.Opened
	if err != nil {
		a.Err = err.Error()
	} else {
		a.Status, a.Height, a.Cache = r.Status, r.Height(), outcome(r.Header.Get("Cache-Status"))
		a.Hash = maphash.Bytes(bodySeed, r.Body)
		if a.Status >= http.StatusInternalServerError {
			a.Err = fmt.Sprintf("%.200s", r.Body)
		}
	}
	if p.Session {
		s.keep(&a, r)
	}
	p.History.add(a)
}

// A session is what a client was told last of the newest block that it has seen.
type session struct {
	token  string
	height int64
}

// headers are those of the next request. Some wait for a block that was just made.
func (s *session) headers(tip int64) (headers []string, least int64) {
	if s.token != "" {
		headers = append(headers, "X-Session: "+s.token)
	}
	if rand.IntN(50) == 0 {
		headers, least = append(headers, fmt.Sprint("X-Min-Block-Height: ", tip)), tip
	}
	return headers, least
}

// keep takes over the session of an answer, unless it is of an earlier block.
func (s *session) keep(a *Answer, r Response) {
	a.Opened = 0
	if !a.OK() {
		return
	}
	token := r.Header.Get("X-Session")
	if a.Anew = r.Header.Get("X-Session-Reset") != ""; token == "" {
		a.Height = 0
	} else if a.Anew || a.Height >= s.height {
		s.token, s.height = token, a.Height
	}
}

func requestOf(key string, headers ...string) []byte {
	if post, ok := strings.CutPrefix(key, http.MethodPost+" "); ok {
		path, body, _ := strings.Cut(post, " ")
		return Request(http.MethodPost, path, body, append(headers, "Content-Type: application/json")...)
	}
	return Request(http.MethodGet, key, "", headers...)
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
