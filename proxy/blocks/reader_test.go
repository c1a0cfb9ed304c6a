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

// chain has the blocks from above pruned to the tip and answers every read with the height.
type chain struct {
	mu     sync.Mutex
	tip    node.Tip
	pruned int64
	fails  bool
	hangs  atomic.Bool
	hash   string // of every block; "" for unknown
	dead   string // hash of the blocks that were rolled back
	raised int64  // last height reported
	age    time.Duration
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

// Executed includes one block of the execution client in each block, 1000 ahead.
func (c *chain) Executed(_ context.Context, height, number int64) (since, newest int64, err error) {
	if number <= height+1000 {
		since = number - 1000
	}
	return since, height + 1000, nil
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

// frontend is an interface with one kind of reads, in front of a chain at block 100.
type frontend struct {
	*blocks.Reader
	nodes *chain
	kind  *blocks.Kind
}

// behind runs a test with a frontend in a synctest bubble.
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

// outcome is the result of a query.
type outcome struct {
	Height  int64
	Outcome string // outcome label as in metrics, or the public error text
}

func (d *frontend) ask(t *testing.T, hs blocks.Heights, walk blocks.Snapshot) outcome {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	a, err := d.Answer(r.Context(), r, &record.Record{}, &blocks.Query{Key: "test/pool", Kind: d.kind, Origin: read{d.nodes}, Heights: hs, Walk: walk})
	if err != nil {
		return outcome{Outcome: failure.Of(err).Public}
	}
	return outcome{a.Entry.Height, a.Outcome.String()}
}

func TestQueryIsReadAtRequestedBlock(t *testing.T) {
	never := blocks.Snapshot{}
	walk := blocks.Snapshot{Height: 97, Epoch: 1}
	for name, tt := range map[string]struct {
		hs    blocks.Heights
		walk  blocks.Snapshot
		want  outcome
		asked []int64 // heights read from the nodes
	}{
		"none":                       {blocks.Heights{}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"pinned":                     {blocks.Heights{Pinned: 90}, never, outcome{90, "miss"}, []int64{90}},
		"minimum, arrived":           {blocks.Heights{Min: 100}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"minimum, does not arrive":   {blocks.Heights{Min: 103}, never, outcome{0, "block 103 has not arrived; the newest is 101"}, nil},
		"minimum, arrives":           {blocks.Heights{Min: 101}, never, outcome{101, "miss"}, []int64{node.AtTip}},
		"pinned, in the future":      {blocks.Heights{Pinned: 101}, never, outcome{0, "block 101 is in the future; the newest is 100"}, nil},
		"execution block, included":  {blocks.Heights{EVM: 1100}, never, outcome{100, "miss"}, []int64{node.AtTip}},
		"execution block, arrives":   {blocks.Heights{EVM: 1101}, never, outcome{101, "miss"}, []int64{node.AtTip}},
		"execution block and pinned": {blocks.Heights{Pinned: 90, EVM: 1091}, never, outcome{0, "block 1091 of the execution client is not included at block 90; the newest included is 1090"}, nil},
		"walk":                       {blocks.Heights{}, walk, outcome{97, "miss"}, []int64{97}},
		"walk before the minimum":    {blocks.Heights{Min: 98}, walk, outcome{100, "miss"}, []int64{node.AtTip}},
		"walk of another epoch":      {blocks.Heights{}, blocks.Snapshot{Height: 97}, outcome{100, "miss"}, []int64{node.AtTip}},
		"walk at a pruned block":     {blocks.Heights{}, blocks.Snapshot{Height: 50, Epoch: 1}, outcome{100, "miss"}, []int64{50, node.AtTip}},
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

func TestNodesAreReadOncePerBlock(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		for _, step := range []struct {
			name   string
			change func()
			hs     blocks.Heights
			want   outcome
		}{
			{"first read", func() {}, blocks.Heights{}, outcome{100, "miss"}},
			{"second read", func() {}, blocks.Heights{}, outcome{100, "hit"}},
			{"after the next block", func() { d.nodes.grow(1) }, blocks.Heights{}, outcome{101, "miss"}},
			{"first read of a past block", func() {}, blocks.Heights{Pinned: 90}, outcome{90, "miss"}},
			{"second read of a past block", func() { d.nodes.grow(1000) }, blocks.Heights{Pinned: 90}, outcome{90, "hit"}},
			{"while the node fails", func() { d.nodes.fails = true }, blocks.Heights{}, outcome{101, "stale_error"}},
			{"with a later minimum block while the node fails", func() {}, blocks.Heights{Min: 102}, outcome{0, "internal error"}},
		} {
			step.change()
			if diff := cmp.Diff(step.want, d.ask(t, step.hs, blocks.Snapshot{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

func TestFixedAnswerIsServedWhateverTheMinimumBlock(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		d.kind = d.Add(&blocks.Kind{Name: "tx", Class: blocks.Found})
		d.ask(t, blocks.Heights{}, blocks.Snapshot{})
		d.nodes.grow(5)
		if got, want := d.ask(t, blocks.Heights{Min: 105}, blocks.Snapshot{}), (outcome{100, "hit"}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// Another replica may have read at a block that this one has not seen yet.
func TestMemoryReplacesWaitingForABlock(t *testing.T) {
	for name, tt := range map[string]struct {
		hs     blocks.Heights
		want   outcome
		waited time.Duration
	}{
		"session":                               {blocks.Heights{Session: session.Token{Height: 102}}, outcome{102, "hit"}, 0},
		"session at an earlier block":           {blocks.Heights{Session: session.Token{Height: 101}}, outcome{102, "hit"}, 0},
		"session at a later block":              {blocks.Heights{Session: session.Token{Height: 103}}, outcome{102, "hit"}, 500 * time.Millisecond},
		"minimum":                               {blocks.Heights{Min: 102}, outcome{102, "hit"}, 0},
		"later minimum":                         {blocks.Heights{Min: 103}, outcome{0, "block 103 has not arrived; the newest is 100"}, 10 * time.Second},
		"minimum, and session at a later block": {blocks.Heights{Min: 101, Session: session.Token{Height: 103}}, outcome{102, "hit"}, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.grow(2)
				d.ask(t, blocks.Heights{}, blocks.Snapshot{})
				d.nodes.grow(-2)
				began := time.Now()
				got := d.ask(t, tt.hs, blocks.Snapshot{})
				if waited := time.Since(began); got != tt.want || waited != tt.waited {
					t.Errorf("got %v after %v, want %v after %v", got, waited, tt.want, tt.waited)
				}
			})
		})
	}
}

// search is a read of a node's index, which may find nothing.
type search struct {
	read
	found, final bool
}

func (s search) Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e, err := s.read.Entry(a, before)
	e.Expires = blocks.IndexedExpiry(s.found, s.final, time.Now(), s.Tip())
	return e, err
}

func TestIndexedAnswersExpireWithTheIndex(t *testing.T) {
	for name, tt := range map[string]struct {
		found, final bool
		class        blocks.Class
		want         []string // 0, 30, 60, 600 and 1600 ms after the block
	}{
		"a transaction":         {true, true, blocks.Found, []string{"miss", "hit", "hit", "hit", "hit"}},
		"a missing transaction": {false, true, blocks.Latest, []string{"miss", "hit", "miss", "miss", "hit"}},
		"a search":              {true, false, blocks.Latest, []string{"miss", "hit", "miss", "miss", "hit"}},
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

func TestClassesCanBeReplacedWhileServing(t *testing.T) {
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
			t.Error("SetClasses accepted a policy of an unknown kind")
		}
	})
}

// Queries served by the same tip wait for the block unless memory has entries from it for all of them.
func TestQueriesOfOneRequestShareTheWait(t *testing.T) {
	for name, hs := range map[string]blocks.Heights{"a height": {Min: 102}, "a session": {Session: session.Token{Height: 102}}} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.grow(2)
				d.ask(t, blocks.Heights{}, blocks.Snapshot{}) // memory has the first entry
				d.nodes.grow(-2)
				go func() { time.Sleep(100 * time.Millisecond); d.nodes.grow(2) }()
				r, rec := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), &record.Record{}
				second := &blocks.Query{Key: "test/other", Kind: d.kind, Origin: read{d.nodes}, Heights: hs}
				first := &blocks.Query{Key: "test/pool", Kind: d.kind, Origin: read{d.nodes}, Heights: hs, With: []*blocks.Query{second}}
				tip, err := d.AwaitBlock(r.Context(), r, rec, first)
				if err != nil || tip.Height != 102 {
					t.Fatalf("tip = %d, error %v; want 102", tip.Height, err)
				}
				for _, q := range []*blocks.Query{first, second} {
					if a, err := d.Lookup(r.Context(), r, rec, q, tip); err != nil || a.Entry.Height != 102 {
						t.Errorf("%s: height = %d, error %v; want 102", q.Key, a.Entry.Height, err)
					}
				}
			})
		})
	}
}

// A client that was notified about a block waits for it only once while no node answers.
func TestNotifiedBlockIsAwaitedOnce(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		d.ask(t, blocks.Heights{}, blocks.Snapshot{})
		client := d.Stack.Listen(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		defer client.Close()
		d.nodes.hangs.Store(true)
		d.nodes.grow(1)
		client.Announce(101)
		for i, waits := range []bool{true, false} {
			began := time.Now()
			if got := d.ask(t, blocks.Heights{}, blocks.Snapshot{}); got.Height != 100 || got.Outcome != "stale" {
				t.Errorf("read %d = %v, want a stale entry from block 100", i, got)
			}
			if took := time.Since(began); waits != (took >= 5*time.Second) {
				t.Errorf("read %d waited %v, want 5 s only for the first", i, took)
			}
		}
	})
}

func TestBlockSeenOnConnectionIsAwaitedOnce(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		var on session.Seen
		var earlier session.Session
		earlier.Arrive(&on)
		earlier.Show(1, 101)
		earlier.Leave()
		for i, want := range []time.Duration{500 * time.Millisecond, 0} {
			began, rec := time.Now(), &record.Record{}
			rec.Session.Arrive(&on)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			if _, err := d.Answer(r.Context(), r, rec, d.query(blocks.Heights{}, blocks.Snapshot{})()); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited != want {
				t.Errorf("read %d waited %v, want %v", i, waited, want)
			}
		}
	})
}

// overtaken is an origin whose answers name no height and arrive after the next block.
type overtaken struct{ read }

func (o overtaken) Fetch(context.Context, node.Request, *cache.Entry) (*node.Answer, error) {
	o.grow(1)
	return &node.Answer{Status: http.StatusNotFound, Body: []byte("not found")}, nil
}

func TestAnswerWithoutHeightBelongsToTheTipBeforeItsRead(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		kind := d.Add(&blocks.Kind{Name: "tx", Class: blocks.Found})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		a, err := d.Answer(r.Context(), r, &record.Record{}, &blocks.Query{Key: "test/tx", Kind: kind, Origin: overtaken{read{d.nodes}}})
		if err != nil || a.Entry.Height != 100 {
			t.Errorf("answer = %+v, %v, want one of block 100", a.Entry, err)
		}
	})
}

func TestEntryWithoutReadHeightIsFromTheTip(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		for name, tt := range map[string]struct {
			answer node.Answer
			want   int64
		}{
			"an answer":                  {node.Answer{Height: 90}, 90},
			"an answer without a height": {node.Answer{}, 100},
			"a pruned height":            {node.Answer{Reason: node.Pruned, Height: 90}, 100},
			"a future height":            {node.Answer{Reason: node.FutureHeight, Height: 190}, 100},
		} {
			if got := d.NewEntry(&tt.answer).Height; got != tt.want {
				t.Errorf("%s: height of the entry = %d, want %d", name, got, tt.want)
			}
		}
	})
}

func TestEntryIsAsOldAsTheAnswerOfAnotherCache(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		d.nodes.age = time.Minute
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		a, err := d.Answer(r.Context(), r, &record.Record{}, d.query(blocks.Heights{}, blocks.Snapshot{})())
		if err != nil || time.Since(a.Entry.ReadAt) != time.Minute {
			t.Errorf("Answer = %+v, %v; want an entry that is a minute old", a.Entry, err)
		}
	})
}
