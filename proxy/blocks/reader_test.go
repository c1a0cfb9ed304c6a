package blocks_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A chain is at a tip, has the blocks above the pruned ones, and answers with the height.
type chain struct {
	mu     sync.Mutex
	tip    node.Tip
	pruned int64
	fails  bool
	hangs  atomic.Bool
	hash   string // of every block; "" for unknown
	dead   string // hash of the blocks that were replaced by others
	raised int64  // the height that was reported last
	moved  chan struct{}
	asked  []node.Request
}

func (c *chain) Fetch(ctx context.Context, r node.Request) (*node.Answer, error) {
	if c.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r)
	height := r.Height
	if height == node.AtTip {
		height = c.tip.Height
	}
	switch {
	case c.fails:
		return nil, errors.New("gone")
	case height <= c.pruned:
		return &node.Answer{Status: http.StatusNotFound, Reason: node.Pruned, Height: height}, nil
	}
	return &node.Answer{Status: http.StatusOK, Height: height, Body: strconv.AppendInt(nil, height, 10)}, nil
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
	return c.dead != "" && prefix == c.dead
}

func (c *chain) Expected(node.Request) time.Duration { return 0 }

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

// Executed counts one block of the execution client in each block, a thousand ahead.
func (c *chain) Executed(_ context.Context, height, number int64) (since, newest int64, err error) {
	if number <= height+1000 {
		since = number - 1000
	}
	return since, height + 1000, nil
}

// grow moves the tip, and wakes one that waits for it.
func (c *chain) grow(n int64) {
	c.mu.Lock()
	c.tip.Height += n
	c.mu.Unlock()
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// A read is what an interface asks the nodes: here whatever they say.
type read struct{ *chain }

func (r read) Fetch(ctx context.Context, asked node.Request, _ *cache.Entry) (*node.Answer, error) {
	return r.chain.Fetch(ctx, asked)
}

func (r read) Entry(a *node.Answer, _ *cache.Entry) (*cache.Entry, error) {
	height := a.Height
	if a.Reason == node.Pruned {
		height = 0
	}
	return &cache.Entry{Content: cache.NewContent(a.Status, respond.JSON, "", a.Body, 0), Height: height, ReadAt: time.Now()}, nil
}

// A frontend is an interface with one kind of reads, before a chain at block 100.
type frontend struct {
	*blocks.Reader
	nodes *chain
	kind  *blocks.Kind
}

// behind runs a test behind one, in a bubble of time.
func behind(t *testing.T, test func(t *testing.T, d *frontend), options ...func(*web.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := cache.New(cache.Options{Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		var o web.Options
		for _, option := range options {
			option(&o)
		}
		d := &frontend{
			nodes: &chain{tip: node.Tip{Height: 100, Known: true, Seen: time.Now(), Interval: 2 * time.Second, Epoch: 1}, moved: make(chan struct{})},
			kind:  &blocks.Kind{Name: "pool", Class: blocks.Live, NoFuture: true},
		}
		if d.Reader, err = blocks.New(blocks.Options{Nodes: d.nodes, MinHeightWait: 10 * time.Second}, web.New(o, c), c); err != nil {
			t.Fatal(err)
		}
		d.Add(d.kind)
		test(t, d)
	})
}

// An outcome is what an interface has of an answer.
type outcome struct {
	Height int64
	Came   string // how, as metrics have it; or what failed
}

func (d *frontend) ask(t *testing.T, hs blocks.Heights, walk blocks.Snapshot) outcome {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	a, err := d.Answer(r.Context(), r, &record.Record{}, &blocks.Query{Key: "test/pool", Kind: d.kind, Origin: read{d.nodes}, Heights: hs, Walk: walk})
	if err != nil {
		return outcome{Came: failure.Of(err).Public}
	}
	return outcome{a.Entry.Height, a.Outcome.String()}
}

func TestAQueryIsAnsweredAtTheBlockThatItsRequestNames(t *testing.T) {
	never := blocks.Snapshot{}
	walk := blocks.Snapshot{Height: 97, Epoch: 1}
	for name, tt := range map[string]struct {
		hs    blocks.Heights
		walk  blocks.Snapshot
		want  outcome
		asked []int64 // at which heights the nodes were asked
	}{
		"none: at the tip":                           {blocks.Heights{}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"one to be read at":                          {blocks.Heights{Pinned: 90}, never, outcome{90, "miss"}, []int64{90}},
		"one that has come":                          {blocks.Heights{Min: 100}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"one that does not come":                     {blocks.Heights{Min: 103}, never, outcome{0, "block 103 has not come; the newest is 101"}, nil},
		"one that comes":                             {blocks.Heights{Min: 101}, never, outcome{101, "miss"}, []int64{node.AtTip}},
		"one to be read at that has not come":        {blocks.Heights{Pinned: 101}, never, outcome{0, "block 101 is in the future; the newest is 100"}, nil},
		"one of the execution client":                {blocks.Heights{EVM: 1100}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"one of the execution client that comes":     {blocks.Heights{EVM: 1101}, never, outcome{101, "miss"}, []int64{node.AtTip}},
		"one of the execution client at a past one":  {blocks.Heights{Pinned: 90, EVM: 1091}, never, outcome{0, "block 1091 of the execution client does not count at block 90; the newest that does is 1090"}, nil},
		"that of the page before":                    {blocks.Heights{}, walk, outcome{97, "miss"}, []int64{97}},
		"that of the page before, which is older":    {blocks.Heights{Min: 98}, walk, outcome{100, "miss"}, []int64{node.AtTip}},
		"that of the page before, of another epoch":  {blocks.Heights{}, blocks.Snapshot{Height: 97}, outcome{100, "miss"}, []int64{node.AtTip}},
		"that of the page before, which no node has": {blocks.Heights{}, blocks.Snapshot{Height: 50, Epoch: 1}, outcome{100, "miss"}, []int64{50, node.AtTip}},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.pruned = 60
				next := time.AfterFunc(2*time.Second, func() { d.nodes.grow(1) })
				defer next.Stop()
				if diff := cmp.Diff(tt.want, d.ask(t, tt.hs, tt.walk)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				var asked []int64
				for _, r := range d.nodes.asked {
					asked = append(asked, r.Height)
				}
				if diff := cmp.Diff(tt.asked, asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestTheNodesAreAskedOnceForABlock(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		for _, step := range []struct {
			name string
			does func()
			hs   blocks.Heights
			want outcome
		}{
			{"the first one asks", func() {}, blocks.Heights{}, outcome{100, "miss"}},
			{"the next one does not", func() {}, blocks.Heights{}, outcome{100, "hit"}},
			{"with the next block one asks again", func() { d.nodes.grow(1) }, blocks.Heights{}, outcome{101, "miss"}},
			{"a past block is read once", func() {}, blocks.Heights{Pinned: 90}, outcome{90, "miss"}},
			{"and never changes", func() { d.nodes.grow(1000) }, blocks.Heights{Pinned: 90}, outcome{90, "hit"}},
			{"an older answer stands in for a node that fails", func() { d.nodes.fails = true }, blocks.Heights{}, outcome{101, "stale_error"}},
			{"but not for one that must have been seen", func() {}, blocks.Heights{Min: 102}, outcome{0, "internal error"}},
		} {
			step.does()
			if diff := cmp.Diff(step.want, d.ask(t, step.hs, blocks.Snapshot{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

func TestWhatIsFixedIsGivenHoweverLateTheBlockThatHasToBeSeen(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		d.kind = d.Add(&blocks.Kind{Name: "tx", Class: blocks.Found})
		d.ask(t, blocks.Heights{}, blocks.Snapshot{})
		d.nodes.grow(5)
		if got, want := d.ask(t, blocks.Heights{Min: 105}, blocks.Snapshot{}), (outcome{100, "hit"}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// A replica may have read at a block of which this one does not know yet.
func TestABlockThatWasSeenIsNotWaitedForWhereMemoryHasAnAnswerOfIt(t *testing.T) {
	for name, tt := range map[string]struct {
		hs     blocks.Heights
		want   outcome
		waited time.Duration
	}{
		"of a session":                      {blocks.Heights{Session: session.Token{Height: 102}}, outcome{102, "hit"}, 0},
		"of a session, an earlier one":      {blocks.Heights{Session: session.Token{Height: 101}}, outcome{102, "hit"}, 0},
		"of a session, a later one":         {blocks.Heights{Session: session.Token{Height: 103}}, outcome{102, "hit"}, 500 * time.Millisecond},
		"that has to be seen":               {blocks.Heights{Min: 102}, outcome{102, "hit"}, 0},
		"that has to be seen, a later one":  {blocks.Heights{Min: 103}, outcome{0, "block 103 has not come; the newest is 100"}, 10 * time.Second},
		"that has to be seen, in a session": {blocks.Heights{Min: 101, Session: session.Token{Height: 103}}, outcome{102, "hit"}, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.grow(2)
				d.ask(t, blocks.Heights{}, blocks.Snapshot{})
				d.nodes.grow(-2)
				began := time.Now()
				got := d.ask(t, tt.hs, blocks.Snapshot{})
				if waited := time.Since(began); got != tt.want || waited != tt.waited {
					t.Errorf("%v after %v, want %v after %v", got, waited, tt.want, tt.waited)
				}
			})
		})
	}
}

// A search is a read of a node's index, which finds something or not.
type search struct {
	read
	found, final bool
}

func (s search) Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e, err := s.read.Entry(a, before)
	e.Expires = blocks.IndexedExpiry(s.found, s.final, time.Now(), s.Tip())
	return e, err
}

func TestWhatAnIndexFeedsIsKeptForABlockOnceTheBlockIsInIt(t *testing.T) {
	for name, tt := range map[string]struct {
		found, final bool
		class        blocks.Class
		want         []string // at once, 30 ms and 60 ms after the block, 600 ms after it, and a second later
	}{
		"a transaction":             {true, true, blocks.Found, []string{"miss", "hit", "hit", "hit", "hit"}},
		"a transaction that is not": {false, true, blocks.Latest, []string{"miss", "hit", "miss", "miss", "hit"}},
		"a search":                  {true, false, blocks.Latest, []string{"miss", "hit", "miss", "miss", "hit"}},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				kind := d.Add(&blocks.Kind{Name: "index", Class: tt.class})
				var got []string
				for _, after := range []int{0, 30, 30, 540, 1000} {
					time.Sleep(time.Duration(after) * time.Millisecond)
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
					q := &blocks.Query{Key: "test/index", Kind: kind, Origin: search{read{d.nodes}, tt.found, tt.final}}
					a, err := d.Answer(r.Context(), r, &record.Record{}, q)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, a.Outcome.String())
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestClassesAreReplacedWhileReading(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		d.ask(t, blocks.Heights{}, blocks.Snapshot{})
		d.nodes.grow(1)
		lasting := map[string]cache.Policy{"pool": {FreshBlocks: 5, StaleBlocks: 5, ErrorBlocks: 5}}
		if err := d.SetClasses(blocks.Classes{}, lasting); err != nil {
			t.Fatal(err)
		}
		if got, want := d.ask(t, blocks.Heights{}, blocks.Snapshot{}), (outcome{100, "hit"}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if d.SetClasses(blocks.Classes{}, map[string]cache.Policy{"nope": {}}) == nil {
			t.Error("a policy of a kind that does not exist is taken")
		}
	})
}

// Queries that are answered by one tip wait for the block unless memory has answers of it for all.
func TestQueriesOfOneRequestAreAwaitedTogether(t *testing.T) {
	for name, hs := range map[string]blocks.Heights{"a height": {Min: 102}, "a session": {Session: session.Token{Height: 102}}} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.grow(2)
				d.ask(t, blocks.Heights{}, blocks.Snapshot{}) // memory has an answer to the first
				d.nodes.grow(-2)
				go func() { time.Sleep(100 * time.Millisecond); d.nodes.grow(2) }()
				r, rec := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), &record.Record{}
				second := &blocks.Query{Key: "test/other", Kind: d.kind, Origin: read{d.nodes}, Heights: hs}
				first := &blocks.Query{Key: "test/pool", Kind: d.kind, Origin: read{d.nodes}, Heights: hs, With: []*blocks.Query{second}}
				tip, err := d.AwaitBlock(r.Context(), r, rec, first)
				if err != nil || tip.Height != 102 {
					t.Fatalf("awaited %d, %v", tip.Height, err)
				}
				for _, q := range []*blocks.Query{first, second} {
					if a, err := d.Lookup(r.Context(), r, rec, q, tip); err != nil || a.Entry.Height != 102 {
						t.Errorf("%s: %v", q.Key, err)
					}
				}
			})
		})
	}
}

// A client that was told of a block by an event waits for it once, while no node answers.
func TestABlockOfAnEventIsAwaitedInVainOnce(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		d.ask(t, blocks.Heights{}, blocks.Snapshot{})
		told := d.Stack.Listen(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		defer told.Close()
		d.nodes.hangs.Store(true)
		d.nodes.grow(1)
		told.Announce(101)
		for i, vain := range []bool{true, false} {
			began := time.Now()
			if got := d.ask(t, blocks.Heights{}, blocks.Snapshot{}); got.Height != 100 || got.Came != "stale" {
				t.Errorf("read %d is %v", i, got)
			}
			if took := time.Since(began); vain != (took >= 5*time.Second) {
				t.Errorf("read %d waited %v", i, took)
			}
		}
	})
}
