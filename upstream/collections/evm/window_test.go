package evm

import (
	"math/rand/v2"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// provider holds the limits of an endpoint.
type provider struct{ blocks, calls int64 }

// answer answers requests for the window, which it adapts. It returns the number of answered requests and of their blocks.
func (p provider) answer(w *window, requests int) (answered int, blocks int64) {
	for range requests {
		if w.blocks.size > p.blocks || w.perRequest() > p.calls {
			w.shrink(w.span())
			continue
		}
		answered++
		blocks += w.span()
		w.fits()
	}
	return answered, blocks
}

func TestWindowsAdaptToLimit(t *testing.T) {
	for _, test := range []struct {
		name        string
		most        int64
		provider    provider
		least       int64 // minimum average of blocks per request
		answered    int   // minimum number of answered requests of 1,000
		mostPerCall int64
	}{
		{"no limit", 10_000, provider{1 << 40, 100}, 10_000, 1000, 10_000},
		{"10,000 of 50,000 blocks", 50_000, provider{10_000, 100}, 6000, 990, 10_000},
		{"500 blocks in a call", 10_000, provider{500, 100}, 600, 900, 500},
		{"10 blocks in a call", 10_000, provider{10, 100}, 120, 900, 10},
		{"10 blocks in a call, as configured", 10, provider{10, 100}, 159, 990, 10},
		{"10 blocks in a call and two calls", 10, provider{10, 2}, 18, 900, 10},
		{"10 blocks in a call and one call", 10, provider{10, 1}, 9, 900, 10},
		{"one block", 10_000, provider{1, 16}, 12, 900, 1},
	} {
		w := newWindow(test.most)
		test.provider.answer(&w, 100)
		answered, blocks := test.provider.answer(&w, 1000)
		if answered < test.answered || blocks < 1000*test.least {
			t.Errorf("%s: %d of 1,000 requests answered with %d blocks, want %d and %d", test.name, answered, blocks, test.answered, 1000*test.least)
		}
		if w.blocks.size > 2*test.mostPerCall {
			t.Errorf("%s: blocks per call = %d, want at most %d", test.name, w.blocks.size, 2*test.mostPerCall)
		}
	}
}

func TestWindowsGrowAgain(t *testing.T) {
	w := newWindow(10_000)
	provider{1, 1}.answer(&w, 2000)
	provider{1 << 40, 100}.answer(&w, 600)
	expect.Equal(t, w.span(), 10_000, "blocks per request")
	expect.Equal(t, w.perRequest(), 1, "calls per request")
}

func TestWindowsStayWithinBounds(t *testing.T) {
	for range 200 {
		most := 1 + rand.Int64N(20_000)
		w := newWindow(most)
		for range 500 {
			if rand.IntN(3) > 0 {
				w.fits()
			} else if refused := 1 + rand.Int64N(w.span()); w.shrink(refused) != (refused > 1) || refused > 1 && w.span() >= refused {
				t.Fatalf("window after %d blocks were refused = %+v, want a smaller one", refused, w)
			}
			if w.blocks.size < 1 || w.blocks.size > most || w.calls.size < 1 || w.calls.size > maxLogCalls || w.span() > max(most, maxPacked) {
				t.Fatalf("window = %+v, want at most %d blocks and %d calls", w, most, maxLogCalls)
			}
		}
	}
}
