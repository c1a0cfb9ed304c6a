package clients

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// An Answer is the outcome of a client's request.
type Answer struct {
	Server string // its address
	Client int
	Opened int // number of the client's connection; 0 in a session
	Key    string
	Sent   time.Time
	Took   time.Duration
	Tip    int64 // newest block when the request was sent
	After  int64 // newest block when the response arrived

	Status int    // 0 without a response
	Err    string // error, or text of a failure
	Height int64  // block that the response names; 0 for none, or in a session without a session token
	Least  int64  // value of X-Min-Block-Height; 0 for none
	Anew   bool   // it has X-Session-Reset, as after a rollback
	Hash   uint64 // of the body
	Cache  string // Cache-Status
}

// String describes the request and its outcome.
func (a *Answer) String() string {
	return fmt.Sprintf("%s at %d from %s (tip %d, %d in %v, %s)", a.Key, a.Height, a.Server, a.Tip, a.Status, a.Took.Round(time.Millisecond), cmp.Or(a.Err, a.Cache))
}

// OK reports whether the request succeeded.
func (a *Answer) OK() bool { return a.Status == http.StatusOK }

// Came returns when the response arrived.
func (a *Answer) Came() time.Time { return a.Sent.Add(a.Took) }

// A History holds the outcomes of requests. It is safe for concurrent use while clients poll.
type History struct {
	mu      sync.Mutex
	Answers []Answer // in order of arrival
}

// All reports whether every outcome of a request sent since a moment is good, and there is at least one.
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

// Polling configures clients that request random keys, each on a connection of its own.
type Polling struct {
	Clients int
	Keys    []string // paths of GETs, or "POST path body"
	TLS     bool
	Session bool          // clients send their session, and close their connection now and then
	Pause   time.Duration // average pause of a client between two requests
	Chain   *devnet.Devnet
	Server  func(client int) string // returns the address for a client's next request
	History *History
}

// Run polls until ctx ends. Requests in flight are completed.
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
		a.Status, a.Height, a.Cache = r.Status, r.Height(), r.Header.Get("Cache-Status")
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

// A session is a client's latest session token.
type session struct {
	token  string
	height int64
}

// headers returns the headers of the next request. Some name a minimum block.
func (s *session) headers(tip int64) (headers []string, least int64) {
	if s.token != "" {
		headers = append(headers, "X-Session: "+s.token)
	}
	if rand.IntN(50) == 0 {
		headers, least = append(headers, fmt.Sprint("X-Min-Block-Height: ", tip)), tip
	}
	return headers, least
}

// keep stores the session of a response, unless it is from an earlier block.
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

// AwaitBlock waits until a chain has reached a height or ctx ends, and returns the chain's height.
func AwaitBlock(ctx context.Context, chain *devnet.Devnet, height int64) int64 {
	for ctx.Err() == nil && chain.Height() < height {
		time.Sleep(time.Millisecond)
	}
	return chain.Height()
}

// A Truth holds a node's responses to some keys at each height.
type Truth struct {
	First, Last int64
	hashes      map[string][]uint64 // of the bodies, by key, starting at First
}

// ReadTruth reads keys from a node at all heights from first to last. Heights up to upTo are taken from known, if it is not
// nil.
func ReadTruth(ctx context.Context, node string, keys []string, first, last int64, known *Truth, upTo int64) (*Truth, error) {
	t := &Truth{First: max(1, first), Last: last, hashes: map[string][]uint64{}}
	for _, key := range keys {
		t.hashes[key] = make([]uint64, last-t.First+1)
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, key := range keys {
		all.Go(func() error {
			for i := range t.hashes[key] {
				h := t.First + int64(i)
				if known != nil && known.First <= h && h <= min(upTo, known.Last) {
					t.hashes[key][i] = known.hashes[key][h-known.First]
					continue
				}
				height := ": " + strconv.FormatInt(h, 10)
				body, err := rig.Get(ctx, node+key, "X-Block-Height"+height, "X-Cosmos-Block-Height"+height) // one per dialect
				if err != nil {
					return fmt.Errorf("read %s at %d: %w", key, h, err)
				}
				t.hashes[key][i] = maphash.String(bodySeed, body)
			}
			return nil
		})
	}
	return t, all.Wait()
}

// Is reports whether the node answers a key with the body at a height.
func (t *Truth) Is(key string, height int64, hash uint64) bool {
	return t.First <= height && height <= t.Last && t.hashes[key][height-t.First] == hash
}

// Until returns the last block up to tip at which the node answers a key with the body. ok is false if there is none.
func (t *Truth) Until(key string, hash uint64, tip int64) (height int64, ok bool) {
	for h := min(tip, t.Last); h >= t.First; h-- {
		if t.hashes[key][h-t.First] == hash {
			return h, true
		}
	}
	return 0, false
}
