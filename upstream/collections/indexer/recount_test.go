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
	"github.com/tipcache/tipcache/upstream/expect"
)

// quick returns options with short pauses.
func quick(store indexer.Store, endpoints ...*fakeEVM) indexer.Options {
	o := indexer.Options{
		Settings: indexer.Settings{Poll: time.Millisecond},
		Options:  evm.Options{Pause: time.Millisecond},
		Network:  story, Store: store, Grace: 300 * time.Millisecond, Doubt: 300 * time.Millisecond,
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
	expect.NoError(t, index(t.Context(), o))
}

// follow starts an indexer that follows the chain until stop is called or the test ends.
func follow(t *testing.T, o indexer.Options) (x *indexer.Indexer, stop func()) {
	t.Helper()
	o.Follow = true
	x = expect.Value(indexer.New(o))(t)
	return x, start(t, x)
}

// start runs an indexer until stop is called or the test ends.
func start(t *testing.T, x *indexer.Indexer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		expect.ErrorIs(t, <-ended, context.Canceled, "Run")
	})
	t.Cleanup(stop)
	return stop
}

var errKilled = errors.New("killed")

// crashingStore fails at its last write, before or after it has written.
type crashingStore struct {
	*collections.Store
	left   int  // writes, including the failing one
	writes bool // the failing call writes
}

func (s *crashingStore) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	if s.left--; s.left > 0 {
		return s.Store.Apply(ctx, prev, t)
	}
	if s.writes {
		if err := s.Store.Apply(ctx, prev, t); err != nil {
			return err
		}
	}
	return errKilled
}

func TestEachEventIsCountedOnceDespiteFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		testEachStore(t, func(t *testing.T, url string) {
			h := newHistory(seed, 120)
			evm := serveEVM(t, h, faults{rate: 0.2, maxRange: 1 + rand.Int64N(60), tooMuch: int(seed), lag: 3, laggingRate: 0.1})
			other := serveEVM(t, h, faults{rate: 0.5, maxRange: 1 + rand.Int64N(20), tooMuch: int(seed) + 1})
			store := open(t, url)
			for round := range 8 {
				o := quick(&crashingStore{store, 1 + rand.IntN(5), round%2 == 0}, evm, other)
				o.Window, o.Parallel = 1+rand.Int64N(100), 1+rand.IntN(4)
				o.Grace, o.Doubt = time.Minute, time.Minute // a busy machine may see nothing but lagging heads for a while
				if round%3 == 2 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20))*time.Millisecond)
					_ = index(ctx, o)
					cancel()
				} else if err := index(t.Context(), o); err != nil && !errors.Is(err, errKilled) {
					t.Fatalf("seed %d: Run = %v, want nil or %v", seed, err, errKilled)
				}
				h.grow(rand.IntN(10))
			}
			evm.set(faults{rate: 0.2}) // a run ends at a head that lags
			run(t, quick(store, evm, other))
			checkStore(t, store, h.count(0))
		})
	}
}

func TestAssetRegisteredAndDisputedInOneWindowIsCounted(t *testing.T) {
	h := newHistory(12, 0)
	asset := h.register()
	dispute := h.raise(asset.ip)
	id := h.ids[len(h.ids)-1]
	h.blocks = append(h.blocks, []fakeLog{asset}, []fakeLog{dispute}, []fakeLog{judgeLog(id)})
	evm := serveEVM(t, h, faults{})
	store := openMemory(t)
	run(t, quick(store, evm))
	h.blocks = append(h.blocks, []fakeLog{resolveLog(id)})
	run(t, quick(store, evm))
	checkStore(t, store, h.count(0))
	expect.Equal(t, evm.called("eth_call"), 0, "calls for owners that the logs name")
}

func TestIndexersOfOneStoreCountEachLogOnce(t *testing.T) {
	t.Parallel()
	testEachStore(t, func(t *testing.T, url string) {
		h := newHistory(7, 150)
		evm := serveEVM(t, h, faults{rate: 0.1, maxRange: 10})
		for range 3 {
			follow(t, quick(open(t, url), evm))
		}
		for range 20 {
			h.grow(5)
			time.Sleep(5 * time.Millisecond)
		}
		store := open(t, url)
		await(t, store, h.head())
		checkStore(t, store, h.count(0))
	})
}

// overtakenStore is filled by another indexer after its mark was read for the first time.
type overtakenStore struct {
	indexer.Store
	once sync.Once
	fill func()
}

func (s *overtakenStore) Mark(ctx context.Context) (collections.Mark, error) {
	m, err := s.Store.Mark(ctx)
	s.once.Do(s.fill)
	return m, err
}

func TestCollectionsOfAnotherIndexerAreNotRefusedAsImported(t *testing.T) {
	t.Parallel()
	h := newHistory(7, 20)
	evm := serveEVM(t, h, faults{})
	store := openMemory(t)
	run(t, quick(&overtakenStore{Store: store, fill: func() { run(t, quick(store, evm)) }}, evm))
	checkStore(t, store, h.count(0))
}

// await waits until a store has a block.
func await(t *testing.T, store *collections.Store, block int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("block %d in the store", block), func() bool { return readCursor(t, store).Block == block })
}

func readCursor(t *testing.T, store *collections.Store) ledger.Cursor {
	t.Helper()
	return expect.Value(store.Mark(t.Context()))(t).Cursor
}
