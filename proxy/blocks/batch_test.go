package blocks_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// callbackRead is a read during which the test calls a function.
type callbackRead struct {
	read
	during func()
}

func (s callbackRead) Ask(ctx context.Context, q *blocks.Read, r node.Request, before *cache.Entry) (*node.Answer, error) {
	s.during()
	return s.read.Ask(ctx, q, r, before)
}

// readBatch reads three parts at one block and returns their bodies.
func (d *frontend) readBatch(t *testing.T, hs web.Heights, during func()) outcome {
	t.Helper()
	b := &blocks.Batch{Compose: func(height int64, parts []*cache.Entry) *cache.Content {
		var bodies []string
		for _, p := range parts {
			bodies = append(bodies, string(p.Body))
		}
		return cache.NewContent(http.StatusOK, respond.JSON, "", []byte(strings.Join(bodies, " ")), 0)
	}}
	for _, name := range []string{"one", "two", "three"} {
		q := &blocks.Read{Key: "test/" + name, Kind: d.kind, Source: read{d.nodes}}
		if name == "two" && during != nil {
			q.Source = callbackRead{read{d.nodes}, during}
		}
		b.Parts = append(b.Parts, q)
	}
	a, err := d.answer(t, &blocks.Read{Key: "test/batch", Kind: d.kind, Heights: hs, Batch: b})
	if err != nil {
		return outcome{Outcome: failure.Of(err).Public}
	}
	return outcome{a.Entry.Height, string(a.Entry.Body)}
}

func TestBatchPartsAreReadAtOneBlock(t *testing.T) {
	for name, tt := range map[string]struct {
		hs      web.Heights
		prepare func(t *testing.T, d *frontend)
		during  func(d *frontend)
		want    outcome
	}{
		"the newest block":                     {want: outcome{100, "100 100 100"}},
		"a height":                             {hs: web.Heights{Pinned: 90}, want: outcome{90, "90 90 90"}},
		"a height that no node has":            {hs: web.Heights{Pinned: 90}, prepare: func(_ *testing.T, d *frontend) { d.nodes.pruned = 95 }, want: outcome{0, "  "}},
		"the first height":                     {hs: web.Heights{Pinned: 1}, want: outcome{1, "1 1 1"}},
		"a block arrives while a part is read": {during: func(d *frontend) { d.nodes.grow(1) }, want: outcome{101, "101 101 101"}},
		"a part was read at an earlier block":  {prepare: func(t *testing.T, d *frontend) { t.Helper(); d.readPart(t); d.nodes.grow(1) }, want: outcome{101, "101 101 101"}},
		"a part was read at a later block":     {prepare: func(t *testing.T, d *frontend) { t.Helper(); d.nodes.grow(1); d.readPart(t); d.nodes.grow(-1) }, want: outcome{100, "100 100 100"}},
		"a part was read at a later block, and nodes have pruned the earlier one": {
			prepare: func(t *testing.T, d *frontend) {
				t.Helper()
				d.nodes.grow(1)
				d.readPart(t)
				d.nodes.grow(-1)
				d.nodes.forgetful = true
			},
			want: outcome{0, "the answers cannot be read at one block at present"},
		},
		"a minimum block":             {hs: web.Heights{Min: 100}, want: outcome{100, "100 100 100"}},
		"a rollback while it is read": {during: func(d *frontend) { d.nodes.mu.Lock(); d.nodes.tip.Epoch++; d.nodes.mu.Unlock() }, want: outcome{0, "the answers cannot be read at one block at present"}},
		"a part fails":                {prepare: func(_ *testing.T, d *frontend) { d.nodes.fails = true }, want: outcome{0, "internal error"}},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				if tt.prepare != nil {
					tt.prepare(t, d)
				}
				once := true
				got := d.readBatch(t, tt.hs, func() {
					if once && tt.during != nil {
						once = false
						tt.during(d)
					}
				})
				expect.Equal(t, got, tt.want, "outcome")
			})
		})
	}
}

// readPart reads one of the parts of a batch alone.
func (d *frontend) readPart(t *testing.T) {
	t.Helper()
	expect.Value(d.answer(t, &blocks.Read{Key: "test/one", Kind: d.kind, Source: read{d.nodes}}))(t)
}

func TestBatchIsCached(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.readBatch(t, web.Heights{}, nil)
		before := len(d.nodes.requests)
		if got := d.readBatch(t, web.Heights{}, nil); got.Height != 100 || len(d.nodes.requests) != before {
			t.Errorf("second batch = %v with %d requests to the nodes, want block 100 with none", got, len(d.nodes.requests)-before)
		}
		d.nodes.grow(1)
		expect.Equal(t, d.readBatch(t, web.Heights{}, nil), outcome{101, "101 101 101"}, "outcome at the next block")
	})
}

func TestBatchDoesNotWaitWhileTipIsUnknown(t *testing.T) {
	for known, want := range map[bool]int64{true: 101, false: 0} {
		withFrontend(t, func(t *testing.T, d *frontend) {
			d.nodes.tip.Known = known
			d.nodes.grow(1)
			d.readPart(t) // like another replica at a later block
			d.nodes.grow(-1)
			start := time.Now()
			d.readBatch(t, web.Heights{}, nil)
			if waited := time.Since(start); d.nodes.raised != want || !known && waited > 0 {
				t.Errorf("tip known %t: raised to %d after %v, want %d, without waiting if unknown", known, d.nodes.raised, waited, want)
			}
		})
	}
}

func TestOnlyTheFirstBatchHasStaleParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFrontend(t, cache.Options{}, web.Options{})
		part := d.query(web.Heights{}, blocks.Snapshot{})()
		// A caller with a stale entry waits for 500 ms, and one with an entry that is kept for errors for 1 s.
		part.Source = callbackRead{read{d.nodes}, func() { time.Sleep(750 * time.Millisecond) }}
		get := func() outcome {
			a := expect.Value(d.answer(t, d.batchOf(part)))(t)
			return outcome{a.Entry.Height, string(a.Outcome)}
		}
		expect.Value(d.answer(t, part))(t)
		for _, want := range []outcome{{100, "miss"}, {100, "stale"}} {
			d.nodes.grow(1)
			expect.Equal(t, get(), want, "outcome at block %d", d.nodes.Tip().Height)
			time.Sleep(2 * time.Second)
		}
		expect.Equal(t, get(), outcome{102, "hit"}, "outcome after the read of the part")
	})
}

// batchOf returns a batch that has the body of its first part.
func (d *frontend) batchOf(parts ...*blocks.Read) *blocks.Read {
	compose := func(_ int64, parts []*cache.Entry) *cache.Content {
		return cache.NewContent(http.StatusOK, respond.JSON, "", parts[0].Body, 0)
	}
	return &blocks.Read{Key: "test/batch", Kind: d.kind, Batch: &blocks.Batch{Parts: parts, Compose: compose}}
}

func TestFailureOfAPartIsTheFailureOfItsBatch(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		batch := func(hs web.Heights) (blocks.Result, error) {
			q := d.batchOf(d.query(web.Heights{}, blocks.Snapshot{})())
			q.Heights = hs
			return d.answer(t, q)
		}
		d.nodes.fails = true
		for _, hs := range []web.Heights{{}, {Pinned: 90}} {
			if _, err := batch(hs); !errors.Is(err, errGone) {
				t.Errorf("error of a batch at %+v = %v, want the node's", hs, err)
			}
		}
		d.nodes.fails, d.nodes.age = false, 3*time.Second
		first := expect.Value(batch(web.Heights{}))(t)
		expect.Equal(t, time.Since(first.Entry.ReadAt), 3*time.Second, "age of the batch")
		d.nodes.grow(10)
		d.nodes.fails = true
		if again, err := batch(web.Heights{}); err != nil || again.Entry != first.Entry || again.Outcome != cache.StaleError || !errors.Is(again.Err, errGone) {
			t.Errorf("batch while the node fails = %v of block %d, %v, %v; want the earlier one and the node's error", again.Outcome, again.Entry.Height, again.Err, err)
		}
	})
}

func TestBatchExpiresWithItsFirstPart(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.kind = d.Add(&blocks.Kind{Name: "index", Class: blocks.Latest})
		search := &blocks.Read{Key: "test/search", Kind: d.kind, Source: searchRead{read{d.nodes}, true, false}} // expires after 50 ms
		batch := d.batchOf(d.query(web.Heights{}, blocks.Snapshot{})(), search)
		for i, want := range []string{"miss", "hit", "miss"} {
			a := expect.Value(d.answer(t, batch))(t)
			expect.Equal(t, string(a.Outcome), want, "outcome after %d ms", i*30)
			time.Sleep(30 * time.Millisecond)
		}
	})
}
