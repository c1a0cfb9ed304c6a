package indexer_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

func TestSmallWindowsShareRequests(t *testing.T) {
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
		if windows := len(evm.asked); windows < 300 || 3*evm.requests > windows {
			t.Errorf("up to %d blocks: %d requests for %d windows", window, evm.requests, windows)
		}
		evm.mu.Unlock()
	}
}

func TestAnEndpointThatTakesFewCallsIsAskedInFew(t *testing.T) {
	h := newHistory(6)
	h.grow(400)
	for name, limit := range map[string]faults{
		"refused": {maxRange: 10, maxCalls: 7}, "as too often": {maxRange: 10, maxCalls: 7, callsMetered: true},
	} {
		evm := serveEVM(t, h, limit)
		store := open(t, memory(t))
		o := quick(store, evm)
		o.From, o.Window = 1, 10
		run(t, o)
		expect(t, store, h.count(0))
		evm.mu.Lock()
		if windows := len(evm.asked); windows > 41 || evm.requests > 2*windows {
			t.Errorf("%s: %d requests for %d windows", name, evm.requests, windows)
		}
		evm.mu.Unlock()
	}
}

// slowStore takes its time to take over a tally.
type slowStore struct {
	*collections.Store
	tallies atomic.Int64
}

func (s *slowStore) Apply(ctx context.Context, prev upstream.Cursor, t upstream.Tally) error {
	s.tallies.Add(1)
	time.Sleep(5 * time.Millisecond)
	return s.Store.Apply(ctx, prev, t)
}

func TestWindowsThatWaitAreTakenOverTogether(t *testing.T) {
	h := newHistory(6)
	h.grow(2000)
	evm := serveEVM(t, h, faults{})
	store := &slowStore{Store: open(t, memory(t))}
	o := quick(store.Store, evm)
	o.Store, o.From, o.Window = store, 1, 5
	run(t, o)
	expect(t, store.Store, h.count(0))
	evm.mu.Lock()
	defer evm.mu.Unlock()
	if tallies := int(store.tallies.Load()); 2*tallies > evm.requests {
		t.Errorf("%d tallies of %d requests", tallies, evm.requests)
	}
}

func TestAnswersThatAreTooLargeAreAskedForInParts(t *testing.T) {
	h := newHistory(6)
	h.grow(500)
	store := open(t, memory(t))
	o := quick(store, serveEVM(t, h, faults{}))
	o.From, o.MaxBody = 1, 64<<10
	run(t, o)
	expect(t, store, h.count(0))
}

func TestALimitIsToldOfOnce(t *testing.T) {
	h := newHistory(10)
	h.grow(5)
	evm := serveEVM(t, h, faults{status: http.StatusTooManyRequests})
	time.AfterFunc(200*time.Millisecond, func() { evm.set(faults{}) })
	var log strings.Builder
	o := quick(open(t, memory(t)), evm)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	run(t, o)
	if n := strings.Count(log.String(), "an endpoint fails"); n != 1 {
		t.Errorf("told of %d times:\n%s", n, log.String())
	}
}
