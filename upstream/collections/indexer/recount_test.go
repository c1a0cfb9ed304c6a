package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// quick are options for tests: no pause is long.
func quick(store indexer.Store, endpoints ...*fakeEVM) indexer.Options {
	o := indexer.Options{
		Options: evm.Options{Pause: time.Millisecond},
		Network: story, Store: store, Poll: time.Millisecond, Grace: 300 * time.Millisecond, Doubt: 300 * time.Millisecond,
	}
	for _, e := range endpoints {
		o.Endpoints = append(o.Endpoints, e.URL)
	}
	return o
}

func index(ctx context.Context, o indexer.Options) error {
	x, err := indexer.New(o)
	if err != nil {
		return err
	}
	return x.Run(ctx)
}

// run indexes to the head.
func run(t *testing.T, o indexer.Options) {
	t.Helper()
	must(t, index(t.Context(), o))
}

// follow indexes until the test ends.
func follow(t *testing.T, o indexer.Options) *indexer.Indexer {
	t.Helper()
	x, err := indexer.New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want %v", err, context.Canceled)
		}
	})
	return x
}

var errKilled = errors.New("killed")

// mortal is a store whose user dies in the middle of writing: before it is
// written, or after, when nobody hears of it.
type mortal struct {
	*collections.Store
	left int // writes until then
	late bool
}

func (m *mortal) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	if m.left--; m.left > 0 {
		return m.Store.Apply(ctx, prev, t)
	}
	if m.late {
		if err := m.Store.Apply(ctx, prev, t); err != nil {
			return err
		}
	}
	return errKilled
}

func TestEveryHistoryIsCountedOnceDespiteFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		everyStore(t, func(t *testing.T, url string) {
			h := newHistory(seed)
			h.grow(120)
			evm := serveEVM(t, h, faults{rate: 0.2, maxRange: 1 + rand.Int64N(60), tooMuch: int(seed), lag: 3, laggingRate: 0.1})
			other := serveEVM(t, h, faults{rate: 0.5, maxRange: 1 + rand.Int64N(20), tooMuch: int(seed) + 1})
			store := open(t, url)
			for life := range 8 {
				o := quick(&mortal{store, 1 + rand.IntN(5), life%2 == 0}, evm, other)
				o.Window, o.Parallel = 1+rand.Int64N(100), 1+rand.IntN(4)
				if life%3 == 2 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20))*time.Millisecond)
					_ = index(ctx, o)
					cancel()
				} else if err := index(t.Context(), o); err != nil && !errors.Is(err, errKilled) {
					t.Fatalf("seed %d: error %v, want %v", seed, err, errKilled)
				}
				h.grow(rand.IntN(10))
			}
			evm.set(faults{rate: 0.2}) // a head that lags twice in a row would end the run
			run(t, quick(store, evm, other))
			expect(t, store, h.count(0))
		})
	}
}

func TestAssetRegisteredAndDisputedInOneWindowIsCounted(t *testing.T) {
	h := newHistory(12)
	asset := h.register()
	dispute := h.raise(asset.ip)
	id := h.ids[len(h.ids)-1]
	h.blocks = append(h.blocks, []fakeLog{asset}, []fakeLog{dispute},
		[]fakeLog{disputeLog("judged", judged, id, word("1")+word("60")+word("0"))})
	evm := serveEVM(t, h, faults{})
	store := open(t, memory(t))
	run(t, quick(store, evm))
	h.blocks = append(h.blocks, []fakeLog{disputeLog("resolved", resolved, id, word("40")+word("0"))})
	run(t, quick(store, evm))
	expect(t, store, h.count(0))
	if n := evm.called("eth_call"); n > 0 {
		t.Errorf("%d calls for owners in the logs, want 0", n)
	}
}

func TestTwoIndexersOfOneStoreCountEachLogOnce(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, url string) {
		h := newHistory(7)
		h.grow(150)
		evm := serveEVM(t, h, faults{rate: 0.1, maxRange: 10})
		ctx, cancel := context.WithCancel(t.Context())
		var indexers sync.WaitGroup
		for range 3 {
			o := quick(open(t, url), evm)
			o.Follow = true
			indexers.Go(func() {
				if err := index(ctx, o); !errors.Is(err, context.Canceled) {
					t.Errorf("Run = %v, want %v", err, context.Canceled)
				}
			})
		}
		for range 20 {
			h.grow(5)
			time.Sleep(5 * time.Millisecond)
		}
		store := open(t, url)
		await(t, store, h.head())
		cancel()
		indexers.Wait()
		expect(t, store, h.count(0))
	})
}

// overtakenStore is filled by another indexer before its collections are listed for the first time.
type overtakenStore struct {
	indexer.Store
	once sync.Once
	fill func()
}

func (s *overtakenStore) List(ctx context.Context, q collections.Query) (collections.Page, error) {
	s.once.Do(s.fill)
	return s.Store.List(ctx, q)
}

func TestCollectionsOfAnotherIndexerAreNotTakenForImported(t *testing.T) {
	t.Parallel()
	h := newHistory(7)
	h.grow(20)
	evm := serveEVM(t, h, faults{})
	store := open(t, memory(t))
	run(t, quick(&overtakenStore{Store: store, fill: func() { run(t, quick(store, evm)) }}, evm))
	expect(t, store, h.count(0))
}

func await(t *testing.T, store *collections.Store, block int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("block %d in the store", block), func() bool {
		cursor, err := store.Cursor(t.Context())
		must(t, err)
		return cursor.Block == block
	})
}
