package blocks_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

var errGone = errors.New("gone")

// chain has the blocks from above pruned to the tip and answers every read with the height.
type chain struct {
	mu         sync.Mutex
	tip        node.Tip
	pruned     int64
	forgetful  bool // blocks that a request names are pruned
	fails      bool
	hangs      atomic.Bool
	hash       string // of every block; "" for unknown
	rolledBack string // hash of the blocks that were rolled back
	raised     int64  // last height reported
	empty      int64  // block without a block of the execution client; 0 for none
	age        time.Duration
	expected   time.Duration // of a read
	executing  time.Duration // of a read of the execution block
	moved      chan struct{}
	requests   []node.Request
}

func (c *chain) Fetch(ctx context.Context, r node.Request) (*node.Answer, error) {
	if c.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	height := r.Height
	if height == node.AtTip {
		height = c.tip.Height
	}
	switch {
	case c.fails:
		return nil, errGone
	case height <= c.pruned || c.forgetful && r.Height != node.AtTip:
		return &node.Answer{Status: http.StatusNotFound, Reason: node.Pruned, Height: height}, nil
	}
	return &node.Answer{Status: http.StatusOK, Height: height, Age: c.age, Body: strconv.AppendInt(nil, height, 10)}, nil
}

func (c *chain) Tip() node.Tip {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tip
}

func (c *chain) ChainID() string { return "test-1" }

func (c *chain) Raise(height int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raised = height
}

func (c *chain) HashOf(int64) string { return c.hash }
func (c *chain) Replaced(_ int64, prefix string) bool {
	return c.rolledBack != "" && prefix == c.rolledBack
}

func (c *chain) Expected(node.Request) time.Duration { return c.expected }

func (c *chain) Moved() <-chan struct{} { return c.moved }

func (c *chain) WaitHeight(ctx context.Context, height int64) error {
	for c.Tip().Height < height {
		select {
		case <-c.moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Executed includes one block of the execution client in each block, 1000 ahead, but none in block c.empty.
func (c *chain) Executed(ctx context.Context, _ string, height, number int64) (since, newest int64, err error) {
	if err := upstream.Sleep(ctx, c.executing); err != nil {
		return 0, 0, upstream.Silence("the chain node", err)
	}
	newest = height + 1000
	if c.empty > 0 && height >= c.empty {
		newest--
	}
	if number <= newest {
		since = height - newest + number
	}
	return since, newest, nil
}

// grow moves the tip and wakes one waiting request.
func (c *chain) grow(n int64) {
	c.mu.Lock()
	c.tip.Height += n
	c.mu.Unlock()
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// read is an origin that returns the chain's answer.
type read struct{ *chain }

func (r read) Ask(ctx context.Context, _ *blocks.Read, asked node.Request, _ *cache.Entry) (*node.Answer, error) {
	return r.chain.Fetch(ctx, asked)
}

func (r read) Entry(_ *blocks.Read, a *node.Answer, _ *cache.Entry) (*cache.Entry, error) {
	height := a.Height
	if a.Reason == node.Pruned {
		height = 0
	}
	return &cache.Entry{Content: cache.NewContent(a.Status, respond.JSON, "", a.Body, 0), Height: height, ReadAt: time.Now()}, nil
}

// frontend is an interface with one kind of reads, in front of a chain at block 100.
type frontend struct {
	*blocks.Reader
	cache *cache.Cache
	nodes *chain
	kind  *blocks.Kind
}

// withFrontend runs a test with a frontend in a synctest bubble. Callers wait for a minute for a newer entry than a stale one.
func withFrontend(t *testing.T, test func(t *testing.T, d *frontend), options ...func(*web.Options)) {
	t.Helper()
	var o web.Options
	for _, option := range options {
		option(&o)
	}
	synctest.Test(t, func(t *testing.T) {
		test(t, newFrontend(t, cache.Options{Patience: time.Minute}, o))
	})
}

func newFrontend(t *testing.T, o cache.Options, w web.Options) *frontend {
	t.Helper()
	c := expect.Value(cache.New(o))(t)
	t.Cleanup(func() { _ = c.Close() })
	d := &frontend{
		cache: c,
		nodes: &chain{tip: node.Tip{Height: 100, Known: true, Since: time.Now(), Interval: 2 * time.Second, Epoch: 1}, moved: make(chan struct{})},
		kind:  &blocks.Kind{Name: "pool", Class: blocks.Live, NoFuture: true},
	}
	d.Reader = expect.Value(blocks.New(blocks.Options{Nodes: d.nodes, MinHeightWait: 10 * time.Second}, web.New(w, c), c))(t)
	d.Add(d.kind)
	return d
}

// outcome is the result of a query.
type outcome struct {
	Height  int64
	Outcome string // outcome label as in metrics, or the public error text
}

// answer answers a query of a new request.
func (d *frontend) answer(t *testing.T, q *blocks.Read) (blocks.Result, error) {
	t.Helper()
	return d.read(web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)), q)
}

// read reads for a request as Serve does.
func (d *frontend) read(r *web.Request, q *blocks.Read) (blocks.Result, error) {
	tip, err := d.AwaitBlock(r.Context(), r, q)
	if err != nil {
		return blocks.Result{}, err
	}
	return d.Lookup(r.Context(), r, q, tip)
}

// get answers a query of the key test/pool and returns the outcome.
func (d *frontend) get(t *testing.T, hs web.Heights, walk blocks.Snapshot) outcome {
	t.Helper()
	a, err := d.answer(t, d.query(hs, walk)())
	if err != nil {
		f := failure.Of(err)
		if f.Status == http.StatusGatewayTimeout && !strings.HasPrefix(f.Error(), f.Public) {
			t.Errorf("text for the log = %q, want it to begin with %q", f, f.Public)
		}
		return outcome{Outcome: f.Public}
	}
	return outcome{a.Entry.Height, string(a.Outcome)}
}

func TestQueryIsReadAtRequestedBlock(t *testing.T) {
	never := blocks.Snapshot{}
	walk := blocks.Snapshot{Height: 97, Epoch: 1}
	for name, tt := range map[string]struct {
		hs    web.Heights
		walk  blocks.Snapshot
		want  outcome
		reads []int64 // heights read from the nodes
	}{
		"no height":                  {web.Heights{}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"pinned":                     {web.Heights{Pinned: 90}, never, outcome{90, "miss"}, []int64{90}},
		"minimum, arrived":           {web.Heights{Min: 100}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"minimum, does not arrive":   {web.Heights{Min: 103}, never, outcome{0, "block 103 has not arrived; the newest is 101"}, nil},
		"minimum, arrives":           {web.Heights{Min: 101}, never, outcome{101, "miss"}, []int64{node.AtTip}},
		"pinned, arrives":            {web.Heights{Pinned: 101}, never, outcome{101, "miss"}, []int64{101}},
		"pinned, does not arrive":    {web.Heights{Pinned: 102}, never, outcome{0, "block 102 is in the future; the newest is 101"}, nil},
		"pinned, far in the future":  {web.Heights{Pinned: 103}, never, outcome{0, "block 103 is in the future; the newest is 100"}, nil},
		"execution block, included":  {web.Heights{EVM: 1100}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"execution block, arrives":   {web.Heights{EVM: 1101}, never, outcome{101, "miss"}, []int64{node.AtTip}},
		"execution block and pinned": {web.Heights{Pinned: 90, EVM: 1091}, never, outcome{0, "block 1091 of the execution client is not included at block 90; the newest included is 1090"}, nil},
		"walk":                       {web.Heights{}, walk, outcome{97, "miss"}, []int64{97}},
		"walk before the minimum":    {web.Heights{Min: 98}, walk, outcome{100, "miss"}, []int64{node.AtTip}},
		"walk of another epoch":      {web.Heights{}, blocks.Snapshot{Height: 97}, outcome{100, "miss"}, []int64{node.AtTip}},
		"walk at a pruned block":     {web.Heights{}, blocks.Snapshot{Height: 50, Epoch: 1}, outcome{100, "miss"}, []int64{50, node.AtTip}},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.pruned = 60
				next := time.AfterFunc(2*time.Second, func() { d.nodes.grow(1) })
				defer next.Stop()
				expect.Equal(t, d.get(t, tt.hs, tt.walk), tt.want, "outcome")
				var heights []int64
				for _, r := range d.nodes.requests {
					heights = append(heights, r.Height)
				}
				expect.NoDiff(t, heights, tt.reads, "heights read from the nodes")
			})
		})
	}
}

func TestExecutionBlockIsAwaitedOverBlocksWithoutOne(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.nodes.empty = 101
		for _, after := range []time.Duration{2 * time.Second, 4 * time.Second} {
			defer time.AfterFunc(after, func() { d.nodes.grow(1) }).Stop()
		}
		expect.Equal(t, d.get(t, web.Heights{EVM: 1101}, blocks.Snapshot{}), outcome{102, "miss"}, "outcome")
	})
}

func TestNodesAreReadOncePerBlock(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		for _, step := range []struct {
			name   string
			change func()
			hs     web.Heights
			want   outcome
		}{
			{"first read", func() {}, web.Heights{}, outcome{100, "miss"}},
			{"second read", func() {}, web.Heights{}, outcome{100, "hit"}},
			{"after the next block", func() { d.nodes.grow(1) }, web.Heights{}, outcome{101, "miss"}},
			{"first read of a past block", func() {}, web.Heights{Pinned: 90}, outcome{90, "miss"}},
			{"second read of a past block", func() { d.nodes.grow(1000) }, web.Heights{Pinned: 90}, outcome{90, "hit"}},
			{"while the node fails", func() { d.nodes.fails = true }, web.Heights{}, outcome{101, "stale_error"}},
			{"with a later minimum block while the node fails", func() {}, web.Heights{Min: 102}, outcome{0, "internal error"}},
		} {
			step.change()
			expect.Equal(t, d.get(t, step.hs, blocks.Snapshot{}), step.want, "outcome of %s", step.name)
		}
	})
}

func TestImmutableEntryIsServedBelowMinimumBlock(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.kind = d.Add(&blocks.Kind{Name: "tx", Class: blocks.Found})
		d.get(t, web.Heights{}, blocks.Snapshot{})
		d.nodes.grow(5)
		expect.Equal(t, d.get(t, web.Heights{Min: 105}, blocks.Snapshot{}), outcome{100, "hit"}, "outcome")
	})
}

// missingRead is a read of an item that no node has.
type missingRead struct{ read }

func (s missingRead) Ask(ctx context.Context, q *blocks.Read, r node.Request, before *cache.Entry) (*node.Answer, error) {
	a, err := s.read.Ask(ctx, q, r, before)
	a.Status = http.StatusNotFound
	return a, err
}

// A missing item may be in the required block.
func TestMissingItemIsReadAgainForMinimumBlock(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		kind := d.Add(&blocks.Kind{Name: "tx", Class: blocks.Found})
		expect.NoError(t, d.SetClasses(blocks.Classes{Live: cache.Policy{FreshBlocks: 2, Keep: time.Minute}}, nil))
		get := func(origin blocks.Source, minHeight int64) outcome {
			q := &blocks.Read{Key: "test/tx", Kind: kind, Source: origin, Heights: web.Heights{Min: minHeight}}
			a := expect.Value(d.answer(t, q))(t)
			return outcome{a.Entry.Height, string(a.Outcome)}
		}
		expect.Equal(t, get(missingRead{read{d.nodes}}, 0), outcome{100, "miss"}, "outcome of the first request")
		d.nodes.grow(1)
		expect.Equal(t, get(missingRead{read{d.nodes}}, 0), outcome{100, "hit"}, "outcome without a minimum block")
		expect.Equal(t, get(read{d.nodes}, 101), outcome{101, "miss"}, "outcome with the minimum block 101")
	})
}

func TestWaitForExecutionBlockIncludesTheReadOfIt(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.nodes.executing = time.Minute
		began := time.Now()
		d.get(t, web.Heights{EVM: 1100}, blocks.Snapshot{})
		expect.Equal(t, time.Since(began), 10*time.Second, "wait for a node that lacks the newest block")
	})
}

// Another replica may have read at a block that this one has not seen yet.
func TestEntryFromLaterBlockEndsWait(t *testing.T) {
	for name, tt := range map[string]struct {
		hs     web.Heights
		want   outcome
		waited time.Duration
	}{
		"session":                               {web.Heights{Session: session.Token{Height: 102}}, outcome{102, "hit"}, 0},
		"session at an earlier block":           {web.Heights{Session: session.Token{Height: 101}}, outcome{102, "hit"}, 0},
		"session at a later block":              {web.Heights{Session: session.Token{Height: 103}}, outcome{102, "hit"}, 500 * time.Millisecond},
		"minimum":                               {web.Heights{Min: 102}, outcome{102, "hit"}, 0},
		"later minimum":                         {web.Heights{Min: 103}, outcome{0, "block 103 has not arrived; the newest is 100"}, 10 * time.Second},
		"minimum, and session at a later block": {web.Heights{Min: 101, Session: session.Token{Height: 103}}, outcome{102, "hit"}, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.grow(2)
				d.get(t, web.Heights{}, blocks.Snapshot{})
				d.nodes.grow(-2)
				began := time.Now()
				got := d.get(t, tt.hs, blocks.Snapshot{})
				if waited := time.Since(began); got != tt.want || waited != tt.waited {
					t.Errorf("got %v after %v, want %v after %v", got, waited, tt.want, tt.waited)
				}
			})
		})
	}
}

// searchRead is a read of a node's index, which may find nothing.
type searchRead struct {
	read
	found, final bool
}

func (s searchRead) Entry(q *blocks.Read, a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e, err := s.read.Entry(q, a, before)
	e.Expires = blocks.IndexedExpiry(s.found, s.final, time.Now(), s.Tip())
	return e, err
}

func TestIndexedAnswersExpireWithTheIndex(t *testing.T) {
	for name, tt := range map[string]struct {
		found, final bool
		class        blocks.Class
		want         []string // outcomes 0, 30, 60, 600 and 1600 ms after the block
	}{
		"a transaction":         {true, true, blocks.Found, []string{"miss", "hit", "hit", "hit", "hit"}},
		"a missing transaction": {false, true, blocks.Latest, []string{"miss", "hit", "miss", "miss", "hit"}},
		"a search":              {true, false, blocks.Latest, []string{"miss", "hit", "miss", "miss", "hit"}},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				kind := d.Add(&blocks.Kind{Name: "index", Class: tt.class})
				var got []string
				for _, after := range []int{0, 30, 30, 540, 1000} {
					time.Sleep(time.Duration(after) * time.Millisecond)
					q := &blocks.Read{Key: "test/index", Kind: kind, Source: searchRead{read{d.nodes}, tt.found, tt.final}}
					got = append(got, string(expect.Value(d.answer(t, q))(t).Outcome))
				}
				expect.NoDiff(t, got, tt.want, "outcomes")
			})
		})
	}
}

func TestClassesCanBeReplacedWhileServing(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.get(t, web.Heights{}, blocks.Snapshot{})
		d.nodes.grow(1)
		lasting := map[string]cache.Policy{"pool": {FreshBlocks: 5, StaleBlocks: 5, ErrorBlocks: 5}}
		expect.NoError(t, d.SetClasses(blocks.Classes{}, lasting))
		expect.Equal(t, d.get(t, web.Heights{}, blocks.Snapshot{}), outcome{100, "hit"}, "outcome with the new policy")
		if d.SetClasses(blocks.Classes{}, map[string]cache.Policy{"nope": {}}) == nil {
			t.Error("SetClasses with a policy of an unknown kind: error = nil, want one")
		}
	})
}

func TestFixedAnswersOutlastBlocksWithTheirOwnPolicy(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		kind := d.Add(&blocks.Kind{Name: "tx", Class: blocks.Found})
		own := cache.Policy{StaleBlocks: 5, ErrorBlocks: 1000, Stale: 15 * time.Second, StaleIfError: 24 * time.Hour, Keep: 24 * time.Hour}
		expect.NoError(t, d.SetClasses(blocks.Classes{}, map[string]cache.Policy{"tx": own}))
		outcome := func() string {
			t.Helper()
			return string(expect.Value(d.answer(t, &blocks.Read{Key: "test/tx", Kind: kind, Source: searchRead{read{d.nodes}, true, true}}))(t).Outcome)
		}
		expect.Equal(t, outcome(), "miss", "first outcome")
		d.nodes.grow(2000)
		time.Sleep(23 * time.Hour)
		expect.Equal(t, outcome(), "hit", "outcome 2000 blocks and 23 hours later")
	})
}

// A key whose policy permits older entries is not read ahead at each block because one caller needs the newest.
func TestStrictCallerDoesNotChangeReadAhead(t *testing.T) {
	never := blocks.Snapshot{}
	for name, read := range map[string]func(*testing.T, *frontend){
		"session": func(t *testing.T, d *frontend) {
			d.get(t, web.Heights{Session: session.Token{Height: d.nodes.Tip().Height}}, never)
		},
		"batch": func(t *testing.T, d *frontend) {
			compose := func(_ int64, parts []*cache.Entry) *cache.Content { return parts[0].Content }
			b := &blocks.Batch{Parts: []*blocks.Read{d.query(web.Heights{}, never)()}, Compose: compose}
			expect.Value(d.answer(t, &blocks.Read{Key: "test/batch", Kind: d.kind, Batch: b}))(t)
		},
		"stream with block events": func(t *testing.T, d *frontend) {
			r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			feed := expect.Value(d.Feed(r, d.query(web.Heights{}, never)()))(t)
			_, _, err := feed.Reader.Read(t.Context(), "", true)
			expect.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				policy := cache.Policy{FreshBlocks: 3, StaleBlocks: 5, ErrorBlocks: 100, StaleIfError: time.Hour}
				expect.NoError(t, d.SetClasses(blocks.Classes{}, map[string]cache.Policy{"pool": policy}))
				nextBlock := func() {
					d.nodes.grow(1)
					d.cache.ReadAhead(t.Context(), ahead.Block{Height: d.nodes.Tip().Height, Time: time.Second, Room: func() bool { return true }})
				}
				request := func() {
					d.get(t, web.Heights{}, never)
					d.get(t, web.Heights{}, never)
				}
				nextBlock()
				request()
				nextBlock()
				read(t, d)
				before := len(d.nodes.requests)
				for range 6 {
					request()
					nextBlock()
				}
				expect.Equal(t, len(d.nodes.requests)-before, 1, "reads in the next 6 blocks")
			})
		})
	}
}

func TestRefusedFeedRecordsTheNewestBlock(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		tip := d.nodes.Tip().Height
		_, err := d.Feed(r, d.query(web.Heights{Min: tip + 100}, blocks.Snapshot{})())
		expect.Equal(t, failure.Of(err).Status, http.StatusGatewayTimeout, "status of a feed that waits for a block in vain")
		expect.Equal(t, r.Record.Tip, tip, "newest block in the record")
	})
}

func TestFeedUsesMemoryBelowItsMinimumBlockAfterRollback(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		feed := expect.Value(d.Feed(r, d.query(web.Heights{Min: 100}, blocks.Snapshot{})()))(t)
		read := func() outcome {
			res, _, err := feed.Reader.Read(t.Context(), "", false)
			expect.NoError(t, err)
			return outcome{res.Entry.Height, string(res.Outcome)}
		}
		expect.Equal(t, read(), outcome{100, "miss"}, "outcome before the rollback")
		d.cache.SetNamespace("test-1#2")
		d.nodes.tip.Height, d.nodes.tip.Epoch = 50, 2
		expect.Equal(t, read(), outcome{50, "miss"}, "outcome after the rollback")
		expect.Equal(t, read(), outcome{50, "hit"}, "outcome of the second read after the rollback")
	})
}

func TestFeedOfWalkIsPinnedUntilRollback(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		feed := expect.Value(d.Feed(r, d.query(web.Heights{}, blocks.Snapshot{Height: 97, Epoch: 1})()))(t)
		check := func(when string, wantHeight, wantPinned int64) {
			t.Helper()
			res, pinned, err := feed.Reader.Read(t.Context(), "", false)
			expect.NoError(t, err)
			expect.Equal(t, res.Entry.Height, wantHeight, "height %s", when)
			expect.Equal(t, pinned, wantPinned, "pinned block %s", when)
		}
		check("of the walk", 97, 97)
		d.cache.SetNamespace("test-1#2")
		d.nodes.tip.Height, d.nodes.tip.Epoch = 97, 2
		check("after the rollback", 97, 0)
		d.nodes.grow(1)
		check("at the next block", 98, 0)
	})
}

// Queries served by the same tip wait for the block unless memory has entries from it for all of them.
func TestQueriesOfOneRequestShareTheWait(t *testing.T) {
	for name, hs := range map[string]web.Heights{"a height": {Min: 102}, "a session": {Session: session.Token{Height: 102}}} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.grow(2)
				d.get(t, web.Heights{}, blocks.Snapshot{}) // memory has the first entry
				d.nodes.grow(-2)
				go func() { time.Sleep(100 * time.Millisecond); d.nodes.grow(2) }()
				r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
				second := &blocks.Read{Key: "test/other", Kind: d.kind, Source: read{d.nodes}, Heights: hs}
				first := &blocks.Read{Key: "test/pool", Kind: d.kind, Source: read{d.nodes}, Heights: hs, With: []*blocks.Read{second}}
				tip, err := d.AwaitBlock(r.Context(), r, first)
				if err != nil || tip.Height != 102 {
					t.Fatalf("tip = %d, error %v; want 102", tip.Height, err)
				}
				for _, q := range []*blocks.Read{first, second} {
					if a, err := d.Lookup(r.Context(), r, q, tip); err != nil || a.Entry.Height != 102 {
						t.Errorf("%s: height = %d, error %v; want 102", q.Key, a.Entry.Height, err)
					}
				}
			})
		})
	}
}

// A client that was notified about a block waits for it only once while no node answers. A proxy that does not name its
// clients does not wait for an event of one of them.
func TestNotifiedBlockIsAwaitedOnce(t *testing.T) {
	t.Run("client", func(t *testing.T) { testNotifiedBlock(t, netip.Prefix{}, 5*time.Second) })
	t.Run("trusted proxy", func(t *testing.T) { testNotifiedBlock(t, netip.MustParsePrefix("192.0.2.0/24"), 500*time.Millisecond) })
}

func testNotifiedBlock(t *testing.T, proxies netip.Prefix, wait time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		d := newFrontend(t, cache.Options{Patience: 500 * time.Millisecond}, web.Options{})
		d.Stack.Admission.Limits.Store(&limits.Limits{TrustedProxies: []netip.Prefix{proxies}})
		d.get(t, web.Heights{}, blocks.Snapshot{})
		client := d.Stack.Listen(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		defer client.Close()
		d.nodes.hangs.Store(true)
		d.nodes.grow(1)
		client.Announce(1, 101)
		for i, want := range []time.Duration{wait, 0} {
			began := time.Now()
			if got := d.get(t, web.Heights{}, blocks.Snapshot{}); got.Height != 100 || got.Outcome != "stale" {
				t.Errorf("read %d = %v, want a stale entry from block 100", i, got)
			}
			if took := time.Since(began); took < want || took > want+time.Second {
				t.Errorf("read %d waited %v, want %v, and at most a second for a newer entry", i, took, want)
			}
		}
	})
}

func TestBlockSeenOnConnectionIsAwaitedOnce(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		var on session.Seen
		var earlier session.Session
		earlier.Arrive(&on)
		earlier.Show(1, 101)
		earlier.Leave()
		for i, want := range []time.Duration{500 * time.Millisecond, 0} {
			began, r := time.Now(), web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			r.Record.Session.Arrive(&on)
			expect.Value(d.read(r, d.query(web.Heights{}, blocks.Snapshot{})()))(t)
			expect.Equal(t, time.Since(began), want, "wait of read %d", i)
		}
	})
}

// overtakenRead is an origin whose answers name no height and arrive after the next block.
type overtakenRead struct{ read }

func (o overtakenRead) Ask(context.Context, *blocks.Read, node.Request, *cache.Entry) (*node.Answer, error) {
	o.grow(1)
	return &node.Answer{Status: http.StatusNotFound, Body: []byte("not found")}, nil
}

func TestEntryWithoutHeightGetsTipBeforeItsRead(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		kind := d.Add(&blocks.Kind{Name: "tx", Class: blocks.Found})
		a := expect.Value(d.answer(t, &blocks.Read{Key: "test/tx", Kind: kind, Source: overtakenRead{read{d.nodes}}}))(t)
		expect.Equal(t, a.Entry.Height, 100, "height of the entry")
	})
}

func TestNewEntryWithoutReadableHeightGetsTip(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		for name, tt := range map[string]struct {
			answer node.Answer
			want   int64
		}{
			"an answer":                  {node.Answer{Height: 90}, 90},
			"an answer without a height": {node.Answer{}, 100},
			"a pruned height":            {node.Answer{Reason: node.Pruned, Height: 90}, 100},
			"a future height":            {node.Answer{Reason: node.FutureHeight, Height: 190}, 100},
		} {
			expect.Equal(t, d.NewEntry(&tt.answer).Height, tt.want, "height of the entry of %s", name)
		}
	})
}

func TestAgeOfNodeResponseIsAgeOfEntry(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.nodes.age = time.Minute
		a := expect.Value(d.answer(t, d.query(web.Heights{}, blocks.Snapshot{})()))(t)
		expect.Equal(t, time.Since(a.Entry.ReadAt), time.Minute, "age of the entry")
	})
}
