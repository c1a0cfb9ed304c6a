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

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestSmallWindowsShareRequests(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 3000)
	for _, window := range []int64{10_000, 10} { // the limit is learned or configured
		evm := serveEVM(t, h, faults{maxRange: 10})
		store := openMemory(t)
		o := quick(store, evm)
		o.From, o.Window = 1, window
		run(t, o)
		checkStore(t, store, h.count(0))
		if windows, n := len(evm.windowSizes()), evm.requestCount(); windows < 300 || n > windows { // some confirm the counts
			t.Errorf("up to %d blocks: %d requests for %d windows, want at least 300 windows and no more requests", window, n, windows)
		}
	}
}

func TestEndpointWithBatchLimitGetsSmallerBatches(t *testing.T) {
	h := newHistory(6, 400)
	for name, limit := range batchLimits(10) {
		evm := serveEVM(t, h, limit)
		store := openMemory(t)
		o := quick(store, evm)
		o.From, o.Window = 1, 10
		run(t, o)
		checkStore(t, store, h.count(0))
		evm.mu.Lock()
		calls := 0
		for _, n := range evm.calls {
			calls += n
		}
		evm.mu.Unlock()
		smaller := 0
		for _, blocks := range evm.windowSizes() {
			if blocks < 10 {
				smaller++
			}
		}
		if n := evm.requestCount(); smaller > 1 || 2*n > calls { // the last window is smaller
			t.Errorf("%s: %d requests for %d calls in windows of %v blocks, want at most half, and at most one window below 10", name, n, calls, evm.windowSizes())
		}
	}
}

func TestEndpointWithSmallBatchLimitGetsMoreRequests(t *testing.T) {
	h := newHistory(7, 120) // without times in its logs
	for most := 1; most <= 3; most++ {
		for name, limit := range batchLimits(0) {
			t.Run(fmt.Sprintf("%d calls at once, larger batches get %s", most, name), func(t *testing.T) {
				t.Parallel()
				limit.maxCalls = most
				evm := serveEVM(t, h, limit)
				for _, from := range []int64{0, 60} { // earlier IPs and disputes are resolved by calls
					store := openMemory(t)
					o := quick(store, evm)
					o.From = from
					run(t, o)
					checkStore(t, store, h.count(from))
					run(t, o) // continues at the store's cursor
				}
			})
		}
	}
}

func TestLaggingServersAreDetectedWithSingleCallBatches(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 500)
	evm := serveEVM(t, h, faults{maxCalls: 1, lag: 40, laggingRate: 0.1})
	store := openMemory(t)
	o := quick(store, evm)
	o.From = 60
	follow(t, o)
	await(t, store, h.head())
	checkStore(t, store, h.count(60))
}

// batchLimits returns ways to refuse more than seven calls. blocks limits the range of each.
func batchLimits(blocks int64) map[string]faults {
	return map[string]faults{
		"an error":    {maxRange: blocks, maxCalls: 7},
		"status 429":  {maxRange: blocks, maxCalls: 7, callsMetered: true},
		"no response": {maxRange: blocks, maxCalls: 7, callsIgnored: true},
	}
}

// slowStore calls wait before it applies the first tally.
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
	h := newHistory(6, 2000)
	evm := serveEVM(t, h, faults{})
	fetches := func() int { return evm.called("eth_getBlockByNumber") / 2 }
	const ahead = 24
	store := &slowStore{Store: openMemory(t), wait: func() {
		for began := time.Now(); fetches() < ahead && time.Since(began) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
	}}
	o := quick(store.Store, evm)
	o.Store, o.From, o.Window = store, 1, 5
	run(t, o)
	checkStore(t, store.Store, h.count(0))
	if tallies := int(store.tallies.Load()); tallies > fetches()-ahead/2 {
		t.Errorf("%d tallies, want at most %d of %d windows", tallies, fetches()-ahead/2, fetches())
	}
}

func TestEventsAreReservedUntilTheyAreApplied(t *testing.T) {
	h := newHistory(6, 50)
	evm := serveEVM(t, h, faults{})
	memory := account.New(64<<20, nil)
	reserved := int64(0)
	store := &slowStore{Store: openMemory(t), wait: func() {
		for began := time.Now(); evm.called("eth_getLogs") < 10 && time.Since(began) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // until the last response is decoded and released
		reserved = memory.Used()
	}}
	o := quick(store.Store, evm)
	o.Store, o.From, o.Window, o.Memory = store, 1, 5, memory.Upstream()
	run(t, o)
	checkStore(t, store.Store, h.count(0))
	if reserved < 50*100 || reserved > 1<<20 {
		t.Errorf("reserved bytes while the first events are applied = %d, want about 200 per event", reserved)
	}
	expect.Equal(t, memory.Used(), 0, "reserved bytes at the end")
}

func TestTooLargeResponsesAreRequestedInParts(t *testing.T) {
	h := newHistory(6, 500)
	store := openMemory(t)
	o := quick(store, serveEVM(t, h, faults{}))
	o.From, o.MaxBody = 1, 64<<10
	run(t, o)
	checkStore(t, store, h.count(0))
}

func TestShortRateLimitIsNotLogged(t *testing.T) {
	h := newHistory(10, 5)
	evm := serveEVM(t, h, faults{status: http.StatusTooManyRequests, failures: 5})
	var log strings.Builder
	o := quick(openMemory(t), evm)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	run(t, o)
	if strings.Contains(log.String(), "429") {
		t.Errorf("log has a line with 429, want none:\n%s", log.String())
	}
}

func TestManyUnknownIDsAreFoundDespiteSmallBatchLimit(t *testing.T) {
	const ids = 200
	h := newHistory(6, 20)
	var logs []fakeLog // the last block has licenses of IPs without a registration
	for range ids {
		ip := h.newIP()
		h.owners[ip] = h.collection()
		logs = append(logs, h.mint(ip))
	}
	h.blocks = append(h.blocks, logs)
	for most := 1; most <= 3; most++ {
		for name, limit := range map[string]faults{
			"an error":             {},
			"an unspecific error":  {callsUnnamed: true},
			"status 429":           {callsMetered: true},
			"no response":          {callsIgnored: true},
			"the first calls only": {callsCut: true},
		} {
			t.Run(fmt.Sprintf("%d calls at once, larger batches get %s", most, name), func(t *testing.T) {
				t.Parallel()
				limit.maxCalls, limit.rate = most, 0.15 // an eighth of these succeeds
				evm := serveEVM(t, h, limit)
				store := openMemory(t)
				o := quick(store, evm)
				o.From = h.head()
				run(t, o)
				checkStore(t, store, h.count(h.head()))
				if n := evm.called("eth_call"); n > 2*2*ids {
					t.Errorf("%d calls, want at most %d, two for each id", n, 2*2*ids)
				}
			})
		}
	}
}

func TestEachValidAnswerIsProgress(t *testing.T) {
	h := newHistory(7, 10) // without times in its logs
	for fault, way := range map[string]int{"no response": 2, "half a response": 3, "no result": noResult} {
		for _, sense := range []int{2, 3} {
			for _, most := range []int{0, 1} {
				t.Run(fmt.Sprintf("one in %d responses is valid, at most %d calls, otherwise %s", sense, most, fault), func(t *testing.T) {
					t.Parallel()
					evm := serveEVM(t, h, faults{sense: sense, way: way, maxCalls: most})
					store := openMemory(t)
					o := quick(store, evm)
					o.From, o.Parallel = 12, 1 // concurrent requests would change which response is valid
					follow(t, o)
					await(t, store, h.head())
					checkStore(t, store, h.count(12)) // earlier IPs and disputes are resolved by calls
				})
			}
		}
	}
}

// Parts with logs are compared in the request that confirms their hashes, so they need no additional one.
func TestComparingAddsAtMostAFifthOfRequests(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 3)
	h.blocks = append(h.blocks, make([][]fakeLog, 50_000)...)
	requests := func(clients int) (n int) {
		var evms []*fakeEVM
		for range clients {
			evms = append(evms, serveEVM(t, h, faults{}))
		}
		store := openMemory(t)
		o := quick(store, evms...)
		o.Window = 50
		run(t, o)
		checkStore(t, store, h.count(0))
		for _, e := range evms {
			n += e.requestCount()
		}
		return n
	}
	if alone, both := requests(1), requests(2); 5*both > 6*alone {
		t.Errorf("%d requests with two clients, %d with one; want at most a fifth more", both, alone)
	}
}
