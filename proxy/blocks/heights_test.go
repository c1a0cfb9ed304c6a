package blocks_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestRolledBackMinimumBlockIsAConflict(t *testing.T) {
	for name, tt := range map[string]struct {
		rolledBack string // hash
		want       string
	}{
		"no rollback":      {"", "miss"},
		"a rollback":       {"A1A1A1A1", "block 99 was rolled back, so a transaction in it may be lost: look for it, and repeat the request without this block"},
		"of another block": {"B2B2B2B2", "miss"},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.rolledBack = tt.rolledBack
				r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				r.Header.Set(respond.MinHeightHeader, "99.A1A1A1A1")
				hs := expect.Value(web.HeightRules{}.Read(r))(t)
				expect.Equal(t, d.get(t, hs, blocks.Snapshot{}).Outcome, tt.want, "outcome")
				if hs.EVM = 1 << 40; tt.want != "miss" {
					expect.Equal(t, d.get(t, hs, blocks.Snapshot{}).Outcome, tt.want, "outcome with a minimum execution block")
				}
			})
		})
	}
}

func TestMinimumBlockIsRefusedWhileTipIsUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		hs   web.Heights
		want string
	}{
		"a block":            {web.Heights{Min: 101}, "the newest block is unknown at present: cannot wait for X-Min-Block-Height"},
		"an execution block": {web.Heights{EVM: 1101}, "the newest block is unknown at present: cannot wait for X-Min-Evm-Block"},
		"a session":          {web.Heights{Session: session.Token{Height: 101}}, "miss"},
		"no minimum":         {web.Heights{}, "miss"},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.tip.Known = false
				expect.Equal(t, d.get(t, tt.hs, blocks.Snapshot{}).Outcome, tt.want, "outcome")
			})
		})
	}
}

func TestPageOfAWalkWaitsAtMostTwoBlocks(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration // until the next block
		want  outcome
	}{
		"in time":    {time.Second, outcome{101, "miss"}},
		"too late":   {5 * time.Second, outcome{100, "miss"}},
		"at the end": {4*time.Second - 1, outcome{101, "miss"}},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				block := time.AfterFunc(tt.after, func() { d.nodes.grow(1) })
				defer block.Stop()
				expect.Equal(t, d.get(t, web.Heights{}, blocks.Snapshot{Height: 101, Epoch: 1}), tt.want, "outcome")
			})
		})
	}
}

func TestPageOfAnImpossibleBlockDoesNotWait(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.nodes.tip.Limit = 110
		began := time.Now()
		expect.Equal(t, d.get(t, web.Heights{}, blocks.Snapshot{Height: 111, Epoch: 1}), outcome{100, "miss"}, "outcome")
		expect.Equal(t, time.Since(began), 0, "wait")
	})
}

func TestPagesOfOneRequestShareTheWait(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		r.WalkWait = new(time.Time)
		began := time.Now()
		for range 3 {
			q := d.query(web.Heights{}, blocks.Snapshot{Height: 101, Epoch: 1})()
			if a, err := d.read(r, q); err != nil || a.Entry.Height != 100 {
				t.Fatalf("got %+v, %v; want block 100", a, err)
			}
		}
		expect.Equal(t, time.Since(began), 4*time.Second, "wait of three pages")
	})
}
