package indexer_test

import (
	"math"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// addEmptyBlocks appends blocks without events.
func (h *history) addEmptyBlocks(blocks int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocks = append(h.blocks, make([][]fakeLog, blocks)...)
}

// awaitDoubt lets a client omit the logs of new blocks, and waits until it is doubted and the other client has caught up.
func awaitDoubt(t *testing.T, x *indexer.Indexer, wrong *fakeEVM) {
	t.Helper()
	wrong.set(faults{drops: dropsAll})
	wrong.grow(300)
	eventually(t, "a doubted client", func() bool { return x.Status().Unverified })
	eventually(t, "the head", func() bool { s := x.Status(); return s.Counting() && s.Cursor.Block == wrong.head() })
}

// Comparing all spans of clients with a small range would need as many requests as fetching them.
func TestStoreIsIncompleteIfNotAllSpansOfTheSourceWereCompared(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 0)
	h.addEmptyBlocks(2000)
	store := openMemory(t)
	wrong := serveEVM(t, h, faults{})
	o := quick(store, wrong, serveEVM(t, h, faults{}))
	o.Window = 10
	x, _ := follow(t, o)
	await(t, store, h.head())
	awaitDoubt(t, x, wrong)
	if state := x.Status().State(); state != "incomplete" {
		t.Errorf("state = %s, want incomplete", state)
	}
}

func TestStoreIsCompleteIfAllSpansOfTheSourceWereCompared(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 0)
	h.addEmptyBlocks(60_000)
	wrong := serveEVM(t, h, faults{})
	store := &slowStore{Store: openMemory(t), wait: func() {
		for began := time.Now(); wrong.called("eth_getBlockByNumber") < 2*60 && time.Since(began) < time.Second; {
			time.Sleep(time.Millisecond)
		}
	}}
	o := quick(store, wrong, serveEVM(t, h, faults{}))
	o.Window = 1000 // one call per request, and many of them wait for the store
	x, _ := follow(t, o)
	await(t, store.Store, h.head())
	awaitDoubt(t, x, wrong)
	if state := x.Status().State(); state != "unverified" {
		t.Errorf("state = %s, want unverified", state)
	}
	checkStore(t, store.Store, h.count(0))
}

// The logs of the second client are only compared and never counted.
func TestRunThatBeganAtBlockZeroIsNotResumed(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 300)
	for contract := range h.deployed {
		h.deployed[contract] = 0
	}
	store := openMemory(t)
	other := serveEVM(t, h, faults{})
	o := quick(store, serveEVM(t, h, faults{}), other)
	o.Window = 10_000
	x, _ := follow(t, o)
	await(t, store, h.head())
	h.grow(20)
	await(t, store, h.head())
	awaitDoubt(t, x, other)
	if s := x.Status(); s.State() != "unverified" || s.First != 0 {
		t.Errorf("state = %s, first block = %d, want unverified and 0", s.State(), s.First)
	}
}

func TestRefusedComparisonsAreTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 2000)
	store := openMemory(t)
	wrong, other := serveEVM(t, h, faults{}), serveEVM(t, h, faults{forgotten: math.MaxInt64})
	o := quick(store, wrong, other)
	o.Window = 4 // so that few refusals lead to the smallest comparison
	x, _ := follow(t, o)
	await(t, store, h.head())
	for other.called("eth_getLogs") < 30 {
		h.grow(100)
		await(t, store, h.head())
	}
	other.set(faults{})
	wrong.set(faults{dropsFrom: h.head() + 1, noBloom: true})
	eventually(t, "state incomplete", func() bool {
		if x.Status().Cursor.Block == h.head() {
			h.grow(100)
		}
		return x.Status().State() == "incomplete" || h.head() > 60_000
	})
	if state := x.Status().State(); state != "incomplete" {
		t.Errorf("state = %s, want incomplete", state)
	}
}
