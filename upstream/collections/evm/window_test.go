package evm

import (
	"math/rand/v2"
	"testing"
)

// provider is what an endpoint gives.
type provider struct{ blocks, calls int64 }

// ask makes requests and returns how many were answered, and how many of the
// blocks they asked for came.
func (p provider) ask(w *window, requests int) (answered int, blocks int64) {
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
		gives       provider
		least       int64 // blocks of a request, on average of 1,000 once it is found out
		answered    int   // of these, at the least
		mostPerCall int64
	}{
		{"all that is wanted", 10_000, provider{1 << 40, 100}, 10_000, 1000, 10_000},
		{"10,000 blocks of more that are wanted", 50_000, provider{10_000, 100}, 6000, 990, 10_000},
		{"500 blocks in a call", 10_000, provider{500, 100}, 600, 900, 500},
		{"10 blocks in a call", 10_000, provider{10, 100}, 120, 900, 10},
		{"10 blocks in a call, as was said", 10, provider{10, 100}, 159, 990, 10},
		{"10 blocks in a call and two calls", 10, provider{10, 2}, 18, 900, 10},
		{"10 blocks in a call and one call", 10, provider{10, 1}, 9, 900, 10},
		{"one block", 10_000, provider{1, 16}, 12, 900, 1},
	} {
		w := newWindow(test.most)
		test.gives.ask(&w, 100)
		answered, blocks := test.gives.ask(&w, 1000)
		if answered < test.answered || blocks < 1000*test.least {
			t.Errorf("%s: %d of 1,000 requests were answered, with %d blocks", test.name, answered, blocks)
		}
		if w.blocks.size > 2*test.mostPerCall {
			t.Errorf("%s: %d blocks in a call", test.name, w.blocks.size)
		}
	}
}

func TestWindowsGrowAgain(t *testing.T) {
	w := newWindow(10_000)
	provider{1, 1}.ask(&w, 2000)
	provider{1 << 40, 100}.ask(&w, 600)
	if w.span() != 10_000 || w.perRequest() != 1 {
		t.Errorf("%d blocks in %d calls", w.blocks.size, w.perRequest())
	}
}

func TestWindowsStayWithinBounds(t *testing.T) {
	for range 200 {
		most := 1 + rand.Int64N(20_000)
		w := newWindow(most)
		for range 500 {
			if rand.IntN(3) > 0 {
				w.fits()
			} else if asked := 1 + rand.Int64N(w.span()); w.shrink(asked) != (asked > 1) || asked > 1 && w.span() >= asked {
				t.Fatalf("%d blocks were refused: %+v", asked, w)
			}
			if w.blocks.size < 1 || w.blocks.size > most || w.calls.size < 1 || w.calls.size > maxLogCalls || w.span() > max(most, maxPacked) {
				t.Fatalf("%+v", w)
			}
		}
	}
}
