package indexer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

func TestSmallWindowsShareRequests(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(3000)
	for _, window := range []int64{10_000, 10} { // found out, and said
		evm := serveEVM(t, h, faults{maxRange: 10})
		store := open(t, memory(t))
		o := quick(store, evm)
		o.From, o.Window = 1, window
		run(t, o)
		expect(t, store, h.count(0))
		evm.mu.Lock()
		if windows := len(evm.windows); windows < 300 || evm.requests > windows { // some confirm what was counted
			t.Errorf("up to %d blocks: %d requests for %d windows, want 300 windows or more, and no more requests", window, evm.requests, windows)
		}
		evm.mu.Unlock()
	}
}

func TestEndpointWithBatchLimitGetsSmallerBatches(t *testing.T) {
	h := newHistory(6)
	h.grow(400)
	for name, limit := range fewCalls(10) {
		evm := serveEVM(t, h, limit)
		store := open(t, memory(t))
		o := quick(store, evm)
		o.From, o.Window = 1, 10
		run(t, o)
		expect(t, store, h.count(0))
		evm.mu.Lock()
		calls := 0
		for _, n := range evm.calls {
			calls += n
		}
		smaller := 0
		for _, blocks := range evm.windows {
			if blocks < 10 {
				smaller++
			}
		}
		if smaller > 1 || 2*evm.requests > calls { // what is left over is smaller
			t.Errorf("%s: %d requests for %d calls, want at most half, in windows of %v blocks with at most one smaller", name, evm.requests, calls, evm.windows)
		}
		evm.mu.Unlock()
	}
}

func TestEndpointWithSmallBatchLimitGetsMoreRequests(t *testing.T) {
	h := newHistory(7) // without times in its logs
	h.grow(120)
	for most := 1; most <= 3; most++ {
		for name, limit := range fewCalls(0) {
			t.Run(fmt.Sprintf("%d calls at once, more are %s", most, name), func(t *testing.T) {
				t.Parallel()
				limit.maxCalls = most
				evm := serveEVM(t, h, limit)
				for _, from := range []int64{0, 60} { // IPs and disputes of before are resolved by calls
					store := open(t, memory(t))
					o := quick(store, evm)
					o.From = from
					run(t, o)
					expect(t, store, h.count(from))
					run(t, o) // from where the store is
				}
			})
		}
	}
}

func TestLaggingServersAreDetectedWithSingleCallBatches(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(500)
	evm := serveEVM(t, h, faults{maxCalls: 1, lag: 40, laggingRate: 0.1})
	store := open(t, memory(t))
	o := quick(store, evm)
	o.From, o.Follow = 60, true
	follow(t, o)
	await(t, store, h.head())
	expect(t, store, h.count(60))
}

// fewCalls are ways of answering no more than seven calls of so many blocks.
func fewCalls(blocks int64) map[string]faults {
	return map[string]faults{
		"refused":      {maxRange: blocks, maxCalls: 7},
		"as too often": {maxRange: blocks, maxCalls: 7, callsMetered: true},
		"in silence":   {maxRange: blocks, maxCalls: 7, callsIgnored: true},
	}
}

// slowStore takes over the first tally when it may.
type slowStore struct {
	*collections.Store
	wait    func()
	tallies atomic.Int64
}

func (s *slowStore) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	if s.tallies.Add(1) == 1 {
		s.wait()
	}
	return s.Store.Apply(ctx, prev, t)
}

func TestWaitingWindowsAreMerged(t *testing.T) {
	h := newHistory(6)
	h.grow(2000)
	evm := serveEVM(t, h, faults{})
	fetches := func() int { return evm.called("eth_getBlockByNumber") / 2 }
	const ahead = 24
	store := &slowStore{Store: open(t, memory(t)), wait: func() {
		for began := time.Now(); fetches() < ahead && time.Since(began) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
	}}
	o := quick(store.Store, evm)
	o.Store, o.From, o.Window = store, 1, 5
	run(t, o)
	expect(t, store.Store, h.count(0))
	if tallies := int(store.tallies.Load()); tallies > fetches()-ahead/2 {
		t.Errorf("%d tallies, want at most %d of %d windows", tallies, fetches()-ahead/2, fetches())
	}
}

func TestTooLargeAnswersAreRequestedInParts(t *testing.T) {
	h := newHistory(6)
	h.grow(500)
	store := open(t, memory(t))
	o := quick(store, serveEVM(t, h, faults{}))
	o.From, o.MaxBody = 1, 64<<10
	run(t, o)
	expect(t, store, h.count(0))
}

func TestShortLimitIsNotLogged(t *testing.T) {
	h := newHistory(10)
	h.grow(5)
	evm := serveEVM(t, h, faults{status: http.StatusTooManyRequests, failures: 5})
	var log strings.Builder
	o := quick(open(t, memory(t)), evm)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	run(t, o)
	if strings.Contains(log.String(), "429") {
		t.Errorf("log has the limit, want no line about it:\n%s", log.String())
	}
}

// manyUnknown is a history in whose last block there are licenses of so many IPs
// that no event tells of.
func manyUnknown(ips int) *history {
	h := newHistory(6)
	h.grow(20)
	var logs []fakeLog
	for range ips {
		ip := h.newIP()
		h.owners[ip] = h.collection()
		logs = append(logs, h.mint(ip))
	}
	h.blocks = append(h.blocks, logs)
	return h
}

func TestManyUnknownIDsAreFoundDespiteSmallBatchLimit(t *testing.T) {
	const ids = 200
	h := manyUnknown(ids)
	for most := 1; most <= 3; most++ {
		for name, limit := range map[string]faults{
			"refused":                       {},
			"refused in words of their own": {callsUnnamed: true},
			"as too often":                  {callsMetered: true},
			"in silence":                    {callsIgnored: true},
			"cut":                           {callsCut: true},
		} {
			t.Run(fmt.Sprintf("%d calls at once, more are %s", most, name), func(t *testing.T) {
				t.Parallel()
				limit.maxCalls, limit.rate = most, 0.15 // one in eight of these passes
				evm := serveEVM(t, h, limit)
				store := open(t, memory(t))
				o := quick(store, evm)
				o.From = h.head()
				run(t, o)
				expect(t, store, h.count(h.head()))
				if n := evm.called("eth_call"); n > 2*2*ids {
					t.Errorf("%d calls, want at most %d, two for each id", n, 2*2*ids)
				}
			})
		}
	}
}

func TestEachValidAnswerIsProgress(t *testing.T) {
	h := newHistory(7) // without times in its logs
	h.grow(10)
	for otherwise, way := range map[string]int{"silence": 2, "half an answer": 3, "no result": noResult} {
		for _, one := range []int{2, 3} {
			for _, most := range []int{0, 1} {
				t.Run(fmt.Sprintf("one in %d of %d calls at most, otherwise %s", one, most, otherwise), func(t *testing.T) {
					t.Parallel()
					evm := serveEVM(t, h, faults{sense: one, way: way, maxCalls: most})
					store := open(t, memory(t))
					o := quick(store, evm)
					o.From, o.Parallel, o.Follow = 12, 1, true // no other work gets it out of step
					follow(t, o)
					await(t, store, h.head())
					expect(t, store, h.count(12)) // IPs and disputes of before are resolved by calls
				})
			}
		}
	}
}

// Parts with logs are compared in the request that confirms their hashes, which there is anyway.
func TestComparingAddsAtMostAFifthOfRequests(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(3)
	h.blocks = append(h.blocks, make([][]fakeLog, 50_000)...)
	requests := func(clients int) (n int) {
		var evms []*fakeEVM
		for range clients {
			evms = append(evms, serveEVM(t, h, faults{}))
		}
		store := open(t, memory(t))
		o := quick(store, evms...)
		o.Window = 50
		run(t, o)
		expect(t, store, h.count(0))
		for _, e := range evms {
			n += e.requests
		}
		return n
	}
	if alone, both := requests(1), requests(2); 5*both > 6*alone {
		t.Errorf("%d requests with two clients, %d with one; want a fifth more at the most", both, alone)
	}
}
