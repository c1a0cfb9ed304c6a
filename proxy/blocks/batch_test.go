package blocks_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/node"
)

// slower is a read during which the test calls a function.
type slower struct {
	read
	during func()
}

func (s slower) Fetch(ctx context.Context, r node.Request, before *cache.Entry) (*node.Answer, error) {
	s.during()
	return s.read.Fetch(ctx, r, before)
}

// batch reads three parts at one block and returns their bodies.
func (d *frontend) batch(t *testing.T, hs blocks.Heights, during func()) outcome {
	t.Helper()
	b := &blocks.Batch{Compose: func(height int64, parts []*cache.Entry) *cache.Content {
		var bodies []string
		for _, p := range parts {
			bodies = append(bodies, string(p.Body))
		}
		return cache.NewContent(http.StatusOK, respond.JSON, "", []byte(strings.Join(bodies, " ")), 0)
	}}
	for _, name := range []string{"one", "two", "three"} {
		q := &blocks.Query{Key: "test/" + name, Kind: d.kind, Origin: read{d.nodes}}
		if name == "two" && during != nil {
			q.Origin = slower{read{d.nodes}, during}
		}
		b.Parts = append(b.Parts, q)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	a, err := d.Answer(r.Context(), r, &record.Record{}, &blocks.Query{Key: "test/batch", Kind: d.kind, Heights: hs, Batch: b})
	if err != nil {
		return outcome{Outcome: failure.Of(err).Public}
	}
	return outcome{a.Entry.Height, string(a.Entry.Body)}
}

func TestBatchPartsAreReadAtOneBlock(t *testing.T) {
	for name, tt := range map[string]struct {
		hs      blocks.Heights
		prepare func(t *testing.T, d *frontend)
		during  func(d *frontend)
		want    outcome
	}{
		"the newest block":                     {want: outcome{100, "100 100 100"}},
		"a height":                             {hs: blocks.Heights{Pinned: 90}, want: outcome{90, "90 90 90"}},
		"the first height":                     {hs: blocks.Heights{Pinned: 1}, want: outcome{1, "1 1 1"}},
		"a block arrives while a part is read": {during: func(d *frontend) { d.nodes.grow(1) }, want: outcome{101, "101 101 101"}},
		"a part was read at an earlier block":  {prepare: func(t *testing.T, d *frontend) { t.Helper(); d.part(t); d.nodes.grow(1) }, want: outcome{101, "101 101 101"}},
		"a part was read at a later block":     {prepare: func(t *testing.T, d *frontend) { t.Helper(); d.nodes.grow(1); d.part(t); d.nodes.grow(-1) }, want: outcome{100, "100 100 100"}},
		"a minimum block":                      {hs: blocks.Heights{Min: 100}, want: outcome{100, "100 100 100"}},
		"a rollback while it is read":          {during: func(d *frontend) { d.nodes.mu.Lock(); d.nodes.tip.Epoch++; d.nodes.mu.Unlock() }, want: outcome{0, "the answers cannot be read at one block at present"}},
		"a part fails":                         {prepare: func(_ *testing.T, d *frontend) { d.nodes.fails = true }, want: outcome{0, "internal error"}},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				if tt.prepare != nil {
					tt.prepare(t, d)
				}
				once := true
				got := d.batch(t, tt.hs, func() {
					if once && tt.during != nil {
						once = false
						tt.during(d)
					}
				})
				if got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// part reads one of the parts of a batch alone.
func (d *frontend) part(t *testing.T) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if _, err := d.Answer(r.Context(), r, &record.Record{}, &blocks.Query{Key: "test/one", Kind: d.kind, Origin: read{d.nodes}}); err != nil {
		t.Fatal(err)
	}
}

func TestBatchIsCached(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		d.batch(t, blocks.Heights{}, nil)
		before := len(d.nodes.asked)
		if got := d.batch(t, blocks.Heights{}, nil); got.Height != 100 || len(d.nodes.asked) != before {
			t.Errorf("second batch = %v with %d requests to the nodes, want block 100 with none", got, len(d.nodes.asked)-before)
		}
		d.nodes.grow(1)
		if got, want := d.batch(t, blocks.Heights{}, nil), (outcome{101, "101 101 101"}); got != want {
			t.Errorf("batch at the next block = %v, want %v", got, want)
		}
	})
}

func TestBatchDoesNotWaitWhileTipIsUnknown(t *testing.T) {
	for known, want := range map[bool]int64{true: 101, false: 0} {
		behind(t, func(t *testing.T, d *frontend) {
			d.nodes.tip.Known = known
			d.nodes.grow(1)
			d.part(t) // like another replica at a later block
			d.nodes.grow(-1)
			start := time.Now()
			d.batch(t, blocks.Heights{}, nil)
			if waited := time.Since(start); d.nodes.raised != want || !known && waited > 0 {
				t.Errorf("tip known %t: raised to %d after %v, want %d, without waiting if unknown", known, d.nodes.raised, waited, want)
			}
		})
	}
}
