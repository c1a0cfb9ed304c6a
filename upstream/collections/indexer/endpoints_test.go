package indexer_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

func memory(t *testing.T) string { t.Helper(); return "sqlite::memory:" }

func TestLaggingEndpointIsNotTrustedBeyondItsHead(t *testing.T) {
	h := newHistory(3)
	h.grow(100)
	late := serveEVM(t, h, faults{lag: 40})
	sound := serveEVM(t, h, faults{})
	store := open(t, memory(t))
	run(t, quick(store, late)) // as far as it has come
	if cursor, _ := store.Cursor(t.Context()); cursor.Block != h.head()-40 {
		t.Errorf("cursor = %d, want %d", cursor.Block, h.head()-40)
	}
	h.grow(30)
	late.set(faults{lag: 40, laggingRate: 0.5}) // a load balancer before two
	run(t, quick(store, late, sound))
	run(t, quick(store, sound))
	expect(t, store, h.count(0))
}

func TestStartIsFoundWhereTheContractsAppear(t *testing.T) {
	h := newHistory(4)
	h.grow(500)
	evm := serveEVM(t, h, faults{})
	store := open(t, memory(t))
	x, err := indexer.New(quick(store, evm))
	must(t, err)
	must(t, x.Run(t.Context()))
	if s := x.Status(); s.First != 5 || s.Cursor.Block != h.head() || s.Head != h.head() {
		t.Errorf("status = %+v, want first 5 and head %d", s, h.head())
	}
	if n := evm.called("eth_getCode"); n > 3*20 {
		t.Errorf("%d calls of eth_getCode, want at most 60", n)
	}
}

func TestImportedCollectionsAreNotCountedTwice(t *testing.T) {
	h := newHistory(4)
	h.grow(20)
	store := open(t, memory(t))
	imported := collections.Collection{Address: address(0xaa, 1), CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)}
	_, err := store.Import(t.Context(), func(yield func(collections.Collection, error) bool) { yield(imported, nil) })
	must(t, err)
	x, err := indexer.New(quick(store, serveEVM(t, h, faults{})))
	must(t, err)
	if err := x.Run(t.Context()); !errors.Is(err, indexer.ErrImported) {
		t.Errorf("Run = %v, want %v", err, indexer.ErrImported)
	}
}

func TestStartBlockCanBeSet(t *testing.T) {
	h := newHistory(5)
	h.grow(200)
	evm := serveEVM(t, h, faults{pruned: 150})
	store := open(t, memory(t))
	o := quick(store, evm)
	o.From = 60 // the IPs and disputes of before are resolved by calls
	run(t, o)
	expect(t, store, h.count(60))
	o.From = 3 // without effect on a store that has begun
	h.grow(20)
	run(t, o)
	expect(t, store, h.count(60))
}

func TestPrunedClientIsReadFromTheFirstLog(t *testing.T) {
	h := newHistory(5)
	h.grow(200)
	for _, pruned := range []int64{150, h.head() + 1} { // of old state, and of all
		store := open(t, memory(t))
		run(t, quick(store, serveEVM(t, h, faults{pruned: pruned})))
		expect(t, store, h.count(0))
	}
}

// A store that lacked the first registrations would count wrong for good.
func TestClientWithMissingLogsCannotStartStore(t *testing.T) {
	h := newHistory(5)
	h.grow(200)
	store := open(t, memory(t))
	forgetful := serveEVM(t, h, faults{pruned: 150, forgotten: 150})
	o := quick(store, forgetful)
	o.Follow = true
	follow(t, o)
	eventually(t, "that it was asked for logs", func() bool { return forgetful.called("eth_getLogs") >= 20 })
	if cursor, err := store.Cursor(t.Context()); err != nil || cursor.Block != 0 {
		t.Errorf("cursor = %d, %v, want 0", cursor.Block, err)
	}
	forgetful.set(faults{pruned: 150}) // another client, behind the same address
	await(t, store, h.head())
	expect(t, store, h.count(0))
}

func TestAddressWithoutCodeIsAnError(t *testing.T) {
	h := newHistory(5)
	h.grow(20)
	h.deployed[story.Disputes.String()] = 35
	store := open(t, memory(t))
	for _, from := range []int64{0, 3} {
		o := quick(store, serveEVM(t, h, faults{}))
		o.From = from
		if err := index(t.Context(), o); !errors.Is(err, indexer.ErrNoContract) || !strings.Contains(err.Error(), story.Disputes.String()) {
			t.Errorf("from %d: error %v, want %v with %v", from, err, indexer.ErrNoContract, story.Disputes)
		}
	}
	// To follow is to hope that the client is only not there yet.
	o := quick(store, serveEVM(t, h, faults{}))
	o.Follow = true
	follow(t, o)
	h.grow(10)
	await(t, store, h.head())
	expect(t, store, h.count(0))
}

func TestWindowsFindLimitOfEndpoint(t *testing.T) {
	t.Parallel()
	for i := range refusals {
		h := newHistory(6)
		h.grow(3000)
		evm := serveEVM(t, h, faults{maxRange: 100, tooMuch: i})
		store := open(t, memory(t))
		run(t, quick(store, evm))
		expect(t, store, h.count(0))
		evm.mu.Lock()
		if n := len(evm.windows); n > 80 { // 3000 blocks in windows of at least half of what it gives
			t.Errorf("refusal %d: %d windows, want at most 80", i, n)
		}
		if evm.requests > 170 {
			t.Errorf("refusal %d: %d requests, want at most 170", i, evm.requests)
		}
		evm.mu.Unlock()
	}
}

func TestRecoveredEndpointGetsLargerRequests(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(1000)
	evm := serveEVM(t, h, faults{maxRange: 10})
	store := open(t, memory(t))
	x, err := indexer.New(func() indexer.Options { o := quick(store, evm); o.Follow = true; o.Window = 512; return o }())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- x.Run(ctx) }()
	await(t, store, h.head())
	small := x.Status().Window
	evm.set(faults{})
	h.grow(4000)
	await(t, store, h.head())
	if grown := x.Status().Window; small > 10 || grown <= 10*small {
		t.Errorf("window was %d and is %d, want at most 10 and then more than tenfold", small, grown)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want %v", err, context.Canceled)
	}
	expect(t, store, h.count(0))
}

func TestFailuresByChanceDoNotKeepWindowsSmall(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(4000)
	evm := serveEVM(t, h, faults{rate: 0.1})
	store := open(t, memory(t))
	o := quick(store, evm)
	o.Window = 64
	run(t, o)
	expect(t, store, h.count(0))
	evm.mu.Lock()
	defer evm.mu.Unlock()
	if least := 4000 / 64; len(evm.windows) > 8*least { // some failures in a row have windows stay small for a while
		t.Errorf("%d windows, want at most %d", len(evm.windows), 8*least)
	}
}

func TestFailingEndpointIsReplaced(t *testing.T) {
	h := newHistory(8)
	h.grow(100)
	for name, f := range map[string]faults{
		"one that is down":        {status: http.StatusBadGateway},
		"one that wants a key":    {status: http.StatusUnauthorized},
		"one that has had enough": {status: http.StatusTooManyRequests},
		"one without an array":    {listless: true},
		"one that lags":           {lag: 90, laggingRate: 0},
	} {
		first, second := serveEVM(t, h, f), serveEVM(t, h, faults{})
		store := open(t, memory(t))
		o := quick(store, second)
		run(t, o)
		h.grow(10)
		run(t, quick(store, first, second))
		expect(t, store, h.count(0))
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestPermanentFailureEndsRunWithoutChanges(t *testing.T) {
	t.Parallel()
	h := newHistory(9)
	h.grow(50)
	store := open(t, memory(t))
	run(t, quick(store, serveEVM(t, h, faults{})))
	want := h.count(0)
	reset := newHistory(9)
	reset.salt = "anew"
	reset.grow(60)
	tests := []struct {
		name string
		evm  *fakeEVM
		want error
	}{
		{"an endpoint of another chain", serveEVM(t, h, faults{chainID: 1}), indexer.ErrOtherChain},
		{"a chain that began anew", serveEVM(t, reset, faults{}), indexer.ErrDiverged},
		{"nobody who lets us ask", serveEVM(t, h, faults{status: http.StatusForbidden}), indexer.ErrForbidden},
		{"an address at which there is no client", serveEVM(t, h, faults{status: http.StatusNotFound}), indexer.ErrForbidden},
		{"a page of a website", serveEVM(t, h, faults{status: http.StatusOK, echoes: "<html>"}), indexer.ErrForbidden},
	}
	for _, test := range tests {
		if err := index(t.Context(), quick(store, test.evm)); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", test.name, err, test.want)
		}
	}
	o := quick(store, serveEVM(t, h, faults{chainID: 1315}))
	o.Network = indexer.Networks()["aeneid"]
	if err := index(t.Context(), o); !errors.Is(err, indexer.ErrOtherChain) {
		t.Errorf("store of another chain: error %v, want %v", err, indexer.ErrOtherChain)
	}
	o = quick(store, serveEVM(t, h, faults{}))
	o.Network.Disputes[0]++
	if err := index(t.Context(), o); !errors.Is(err, indexer.ErrOtherChain) || !strings.Contains(err.Error(), "contracts") {
		t.Errorf("store filled from other contracts: error %v, want %v with the contracts", err, indexer.ErrOtherChain)
	}
	expect(t, store, want)
}

func TestRateLimitOfProviderIsAwaited(t *testing.T) {
	t.Parallel()
	h := newHistory(10)
	h.grow(5)
	evm := serveEVM(t, h, faults{status: http.StatusTooManyRequests})
	began := time.Now()
	time.AfterFunc(200*time.Millisecond, func() { evm.set(faults{}) })
	store := open(t, memory(t))
	run(t, quick(store, evm))
	expect(t, store, h.count(0))
	evm.mu.Lock()
	defer evm.mu.Unlock()
	// Without refusals a run takes about 40 requests, 16 of them for the last looks at the store's block.
	if took := time.Since(began); evm.requests > 60+int(took/(20*time.Millisecond)) {
		t.Errorf("%d requests in %v, want at most 60 and one in 20ms", evm.requests, took)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	store := open(t, memory(t))
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
