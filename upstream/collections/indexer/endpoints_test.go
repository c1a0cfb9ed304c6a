package indexer_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

func TestLaggingEndpointIsNotTrustedBeyondItsHead(t *testing.T) {
	h := newHistory(3, 100)
	lagging := serveEVM(t, h, faults{lag: 40})
	sound := serveEVM(t, h, faults{})
	store := openMemory(t)
	run(t, quick(store, lagging))
	expect.Equal(t, readCursor(t, store).Block, h.head()-40, "block of the cursor")
	h.grow(30)
	lagging.set(faults{lag: 40, laggingRate: 0.5}) // a load balancer with one lagging server of two
	run(t, quick(store, lagging, sound))
	run(t, quick(store, sound))
	checkStore(t, store, h.count(0))
}

func TestFirstBlockIsWhereContractsAppear(t *testing.T) {
	h := newHistory(4, 500)
	evm := serveEVM(t, h, faults{})
	store := openMemory(t)
	x := expect.Value(indexer.New(quick(store, evm)))(t)
	expect.NoError(t, x.Run(t.Context()))
	if s := x.Status(); s.First != 5 || s.Cursor.Block != h.head() || s.Head != h.head() {
		t.Errorf("status = %+v, want first 5 and head %d", s, h.head())
	}
	if n := evm.called("eth_getCode"); n > 3*20 {
		t.Errorf("%d calls of eth_getCode, want at most 60", n)
	}
}

func TestImportedCollectionsAreNotCountedTwice(t *testing.T) {
	h := newHistory(4, 20)
	store := openMemory(t)
	imported := collections.Collection{Address: address(0xaa, 1), CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)}
	expect.Value(store.Import(t.Context(), func(yield func(collections.Collection, error) bool) { yield(imported, nil) }))(t)
	x := expect.Value(indexer.New(quick(store, serveEVM(t, h, faults{}))))(t)
	expect.ErrorIs(t, x.Run(t.Context()), indexer.ErrImported, "Run")
}

// An importingStore imports a collection before its first tally.
type importingStore struct {
	*collections.Store

	imported atomic.Bool
}

func (s *importingStore) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	if !s.imported.Swap(true) {
		_, err := s.Import(ctx, func(yield func(collections.Collection, error) bool) {
			yield(collections.Collection{Address: address(0xaa, 1), CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)}, nil)
		})
		if err != nil {
			return err
		}
	}
	return s.Store.Apply(ctx, prev, t)
}

func TestImportDuringSearchForFirstBlockIsNotCountedTwice(t *testing.T) {
	h := newHistory(4, 20)
	store := openMemory(t)
	err := index(t.Context(), quick(&importingStore{Store: store}, serveEVM(t, h, faults{})))
	expect.ErrorIs(t, err, indexer.ErrImported, "Run")
	expect.Equal(t, readCursor(t, store).Block, 0, "block of the cursor")
}

func TestStartBlockCanBeSet(t *testing.T) {
	h := newHistory(5, 200)
	evm := serveEVM(t, h, faults{pruned: 150})
	store := openMemory(t)
	o := quick(store, evm)
	o.From = 60 // earlier IPs and disputes are resolved by calls
	run(t, o)
	checkStore(t, store, h.count(60))
	o.From = 3 // has no effect on a store with a cursor
	h.grow(20)
	run(t, o)
	checkStore(t, store, h.count(60))
}

func TestPrunedClientIsReadFromTheFirstLog(t *testing.T) {
	h := newHistory(5, 200)
	for _, pruned := range []int64{150, h.head() + 1} { // old state, and all state
		store := openMemory(t)
		run(t, quick(store, serveEVM(t, h, faults{pruned: pruned})))
		checkStore(t, store, h.count(0))
	}
}

// A store without the first registrations would count wrong permanently.
func TestClientWithMissingLogsCannotStartStore(t *testing.T) {
	h := newHistory(5, 200)
	store := openMemory(t)
	forgetful := serveEVM(t, h, faults{pruned: 150, forgotten: 150})
	follow(t, quick(store, forgetful))
	eventually(t, "20 calls of eth_getLogs", func() bool { return forgetful.called("eth_getLogs") >= 20 })
	expect.Equal(t, readCursor(t, store).Block, 0, "block of the cursor")
	forgetful.set(faults{pruned: 150}) // another client at the same address
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

func TestAddressWithoutCodeIsAnError(t *testing.T) {
	h := newHistory(5, 20)
	h.deployed[story.Disputes.String()] = 35
	store := openMemory(t)
	for _, from := range []int64{0, 3} {
		o := quick(store, serveEVM(t, h, faults{}))
		o.From = from
		if err := index(t.Context(), o); !errors.Is(err, indexer.ErrNoContract) || !strings.Contains(err.Error(), story.Disputes.String()) {
			t.Errorf("from %d: error %v, want %v with %v", from, err, indexer.ErrNoContract, story.Disputes)
		}
	}
	// A following indexer waits for the client to reach the contract's block.
	follow(t, quick(store, serveEVM(t, h, faults{})))
	h.grow(10)
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

func TestImpossibleTimesInLogsAreNotCounted(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{1, 0x3afff4417f} { // 1970 and 9999
		h := newHistory(6, 300)
		store := openMemory(t)
		run(t, quick(store, serveEVM(t, h, faults{logTime: at})))
		checkStore(t, store, h.count(0))
	}
}

func TestWindowsFindLimitOfEndpoint(t *testing.T) {
	t.Parallel()
	for i := range refusals {
		h := newHistory(6, 3000)
		evm := serveEVM(t, h, faults{maxRange: 100, tooMuch: i})
		store := openMemory(t)
		run(t, quick(store, evm))
		checkStore(t, store, h.count(0))
		if n := len(evm.windowSizes()); n > 80 { // 3000 blocks in windows of at least half of the limit
			t.Errorf("refusal %d: %d windows, want at most 80", i, n)
		}
		if n := evm.requestCount(); n > 170 {
			t.Errorf("refusal %d: %d requests, want at most 170", i, n)
		}
	}
}

func TestRecoveredEndpointGetsLargerRequests(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 1000)
	evm := serveEVM(t, h, faults{maxRange: 10})
	store := openMemory(t)
	o := quick(store, evm)
	o.Window = 512
	x, _ := follow(t, o)
	await(t, store, h.head())
	small := x.Status().Window
	evm.set(faults{})
	h.grow(4000)
	await(t, store, h.head())
	if grown := x.Status().Window; small > 20 || grown <= 10*small { // windows are tried up to twice the limit
		t.Errorf("window was %d and is %d, want at most 20 and then more than tenfold", small, grown)
	}
	checkStore(t, store, h.count(0))
}

func TestRandomFailuresDoNotKeepWindowsSmall(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 4000)
	evm := serveEVM(t, h, faults{rate: 0.1})
	store := openMemory(t)
	o := quick(store, evm)
	o.Window = 64
	run(t, o)
	checkStore(t, store, h.count(0))
	// Consecutive failures keep windows small for a while.
	if n, least := len(evm.windowSizes()), 4000/64; n > 8*least {
		t.Errorf("%d windows, want at most %d", n, 8*least)
	}
}

func TestFailingEndpointIsReplaced(t *testing.T) {
	h := newHistory(8, 100)
	for name, f := range map[string]faults{
		"down":                {status: http.StatusBadGateway},
		"requires a key":      {status: http.StatusUnauthorized},
		"limits requests":     {status: http.StatusTooManyRequests},
		"logs are not a list": {listless: true},
		"other chain":         {chainID: 1},
		"no access":           {status: http.StatusForbidden},
		"no client":           {status: http.StatusNotFound},
		"lags":                {lag: 90},
		"sends without end":   {endless: true},
	} {
		first, second := serveEVM(t, h, f), serveEVM(t, h, faults{})
		store, log := openMemory(t), &logtest.Log{}
		run(t, quick(store, second))
		h.grow(10)
		o := quick(store, first, second)
		o.MaxBody = 1 << 20
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		run(t, o)
		checkStore(t, store, h.count(0))
		if f.lag == 0 {
			awaitLine(t, log, `msg="execution client failed, using the next one"`)
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestPermanentFailureEndsRunWithoutChanges(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 50)
	store := openMemory(t)
	run(t, quick(store, serveEVM(t, h, faults{})))
	want := h.count(0)
	reset := newHistory(9, 60)
	reset.salt = "reset"
	tests := []struct {
		name string
		evm  *fakeEVM
		want error
	}{
		{"endpoint of another chain", serveEVM(t, h, faults{chainID: 1}), indexer.ErrOtherChain},
		{"restarted chain", serveEVM(t, reset, faults{}), indexer.ErrDiverged},
		{"forbidden", serveEVM(t, h, faults{status: http.StatusForbidden}), indexer.ErrForbidden},
		{"not found", serveEVM(t, h, faults{status: http.StatusNotFound}), indexer.ErrForbidden},
		{"page of a website", serveEVM(t, h, faults{status: http.StatusOK, echoes: "<html>"}), indexer.ErrForbidden},
	}
	for _, test := range tests {
		expect.ErrorIs(t, index(t.Context(), quick(store, test.evm)), test.want, "Run, %s", test.name)
	}
	o := quick(store, serveEVM(t, h, faults{chainID: 1315}))
	o.Network = indexer.Networks()["aeneid"]
	expect.ErrorIs(t, index(t.Context(), o), indexer.ErrOtherChain, "Run, store of another chain")
	o = quick(store, serveEVM(t, h, faults{}))
	o.Network.Disputes[0]++
	if err := index(t.Context(), o); !errors.Is(err, indexer.ErrOtherChain) || !strings.Contains(err.Error(), "contracts") {
		t.Errorf("Run, store filled from other contracts = %v, want %v with the contracts", err, indexer.ErrOtherChain)
	}
	checkStore(t, store, want)
}

func TestRateLimitOfProviderIsAwaited(t *testing.T) {
	t.Parallel()
	h := newHistory(10, 5)
	evm := serveEVM(t, h, faults{status: http.StatusTooManyRequests})
	began := time.Now()
	time.AfterFunc(200*time.Millisecond, func() { evm.set(faults{}) })
	store := openMemory(t)
	run(t, quick(store, evm))
	checkStore(t, store, h.count(0))
	// Without refusals a run takes about 40 requests, 16 of them for the final reads of the store's block.
	if n, took := evm.requestCount(), time.Since(began); n > 60+int(took/(20*time.Millisecond)) {
		t.Errorf("%d requests in %v, want at most 60 and one per 20ms", n, took)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	store := openMemory(t)
	at := func(url string) evm.Options { return evm.Options{Endpoints: []string{url}} }
	for name, o := range map[string]indexer.Options{
		"no endpoint":          {Store: store, Network: story},
		"no store":             {Options: at("http://h"), Network: story},
		"no network":           {Options: at("http://h"), Store: store},
		"a malformed endpoint": {Options: at("http://user:secret\x00@h"), Store: store, Network: story},
	} {
		if _, err := indexer.New(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want one without the secret", name, err)
		}
	}
}

func TestIndexerLeavesClientThatStandsStill(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 80)
	still, other := serveEVM(t, h, faults{}), serveEVM(t, h, faults{})
	store := openMemory(t)
	run(t, quick(store, still))
	h.grow(20)
	still.set(faults{lag: 20}) // its newest block is the store's
	follow(t, quick(store, still, other))
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

func TestIndexerLeavesAllClientsThatStandStill(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 80)
	still, alsoStill, other := serveEVM(t, h, faults{}), serveEVM(t, h, faults{}), serveEVM(t, h, faults{})
	store := openMemory(t)
	run(t, quick(store, still))
	h.grow(20)
	still.set(faults{lag: 20})
	alsoStill.set(faults{lag: 20})
	follow(t, quick(store, still, alsoStill, other))
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

func TestRunToHeadReachesHeadOfAnyClient(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 80)
	store := openMemory(t)
	run(t, quick(store, serveEVM(t, h, faults{lag: 40}), serveEVM(t, h, faults{})))
	if m := expect.Value(store.Mark(t.Context()))(t); m.Cursor.Block != h.head() {
		t.Errorf("the store is at block %d, want %d", m.Cursor.Block, h.head())
	}
	checkStore(t, store, h.count(0))
}
