package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// awaitLine waits until a text was logged, and fails unless that happened once.
func awaitLine(t *testing.T, log *logtest.Log, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q", text), func() bool { return log.Count(text) > 0 })
	if n := log.Count(text); n != 1 {
		t.Errorf("%d lines with %q, want 1:\n%s", n, text, log.String())
	}
}

func TestIndexerWaitsForClientBehindStore(t *testing.T) {
	h := newHistory(9, 80)
	store := openMemory(t)
	evm := serveEVM(t, h, faults{})
	run(t, quick(store, evm))
	evm.set(faults{lag: 40}) // a restored snapshot
	log := &logtest.Log{}
	o := quick(store, evm)
	o.Logger, o.Grace = slog.New(slog.NewTextHandler(log, nil)), 50*time.Millisecond
	x, _ := follow(t, o)
	awaitLine(t, log, "indexing stopped")
	if s := x.Status(); s.Err == nil || s.Ended || !strings.Contains(s.Err.Error(), "the store is at block 89") {
		t.Errorf("status = %+v, want running with an error at block 89", s)
	}
	h.grow(20)
	evm.awaitRequests(t, 2)
	evm.set(faults{})
	await(t, store, h.head())
	awaitLine(t, log, "indexing resumed")
	evm.awaitRequests(t, 2)
	awaitLine(t, log, "indexing resumed")
	awaitLine(t, log, "indexing stopped")
	checkStore(t, store, h.count(0))
}

func TestStatusReportsRequestThatClientAlwaysRefuses(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 30)
	store := openMemory(t)
	evm, log := serveEVM(t, h, faults{listless: true}), &logtest.Log{}
	o := quick(store, evm)
	o.Logger, o.Doubt = slog.New(slog.NewTextHandler(log, nil)), 50*time.Millisecond
	x, _ := follow(t, o)
	awaitLine(t, log, "indexing stopped")
	if s := x.Status(); s.State() != "failed" || s.Counting() || !strings.Contains(fmt.Sprint(s.Err), "its logs are not an array") {
		t.Errorf("state %s, status %+v, want failed, because the logs are not an array", s.State(), s)
	}
	evm.set(faults{})
	await(t, store, h.head())
	awaitLine(t, log, "indexing resumed")
	awaitLine(t, log, "indexing stopped")
	checkStore(t, store, h.count(0))
}

func TestRunToHeadEndsIfClientStaysBehindStore(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 80)
	store := openMemory(t)
	evm := serveEVM(t, h, faults{})
	run(t, quick(store, evm))
	evm.set(faults{lag: 40})
	err := index(t.Context(), quick(store, evm))
	expect.Contains(t, fmt.Sprint(err), "the store is at block 89 and waits for", "error of Run")
}

func TestOutageOfClientIsLoggedAtStartAndEnd(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 30)
	store := openMemory(t)
	evm, log := serveEVM(t, h, faults{}), &logtest.Log{}
	o := quick(store, evm)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	follow(t, o)
	await(t, store, h.head())
	evm.set(faults{status: http.StatusBadGateway})
	awaitLine(t, log, `msg="upstream unreachable" origin="execution client 127.0.0.1`)
	h.grow(5)
	evm.awaitRequests(t, 2)
	evm.set(faults{})
	awaitLine(t, log, `msg="upstream reachable again" origin="execution client 127.0.0.1`)
	await(t, store, h.head())
	awaitLine(t, log, "502 Bad Gateway")
}

func TestSecretsEchoedByEndpointAreRedacted(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 30)
	const key = "sEcReT-k3y"
	for name, f := range map[string]faults{
		"forbidden":             {status: http.StatusForbidden, echoes: "key " + key + " is unknown"},
		"refused":               {status: http.StatusBadRequest, echoes: "no project /v3/" + key},
		"cut":                   {status: http.StatusBadRequest, echoes: strings.Repeat("x", 195) + key},
		"in lower case":         {status: http.StatusNotFound, echoes: strings.ToLower("no such key " + key)},
		"not JSON":              {status: http.StatusOK, echoes: "<html>" + key},
		"JSON error without id": {status: http.StatusOK, echoes: `{"error":{"code":-32601,"message":"` + key + ` may not"}}`},
	} {
		log := &logtest.Log{}
		o := quick(openMemory(t), serveEVM(t, h, f))
		o.Endpoints[0] += "/v3/" + key
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		err := index(t.Context(), o)
		expect.ErrorIs(t, err, indexer.ErrForbidden, "Run, %s", name)
		if text := strings.ToLower(fmt.Sprint(log, err)); strings.Contains(text, strings.ToLower(key)[:6]) {
			t.Errorf("%s: log or error contains the key, want it redacted:\n%s", name, text)
		}
	}
}

// panickyStore panics at its first tally.
type panickyStore struct {
	indexer.Store
	tallies atomic.Int64
}

func (s *panickyStore) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	if s.tallies.Add(1) == 1 {
		panic("a tally that cannot be written")
	}
	return s.Store.Apply(ctx, prev, t)
}

func TestIndexerContinuesAfterPanic(t *testing.T) {
	h := newHistory(9, 50)
	store := openMemory(t)
	follow(t, quick(&panickyStore{Store: store}, serveEVM(t, h, faults{})))
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

// busyStore is busy at its first tally, and calls wait before it applies the third one.
type busyStore struct {
	*collections.Store
	wait    func()
	tallies atomic.Int64
}

func (s *busyStore) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	switch s.tallies.Add(1) {
	case 1:
		return errors.New("database is locked")
	case 3:
		s.wait()
	}
	return s.Store.Apply(ctx, prev, t)
}

func TestStatusHasNoErrorAfterBlocksWereApplied(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 3000)
	reached, release := make(chan struct{}), make(chan struct{})
	store := &busyStore{Store: openMemory(t), wait: func() { close(reached); <-release }}
	o := quick(store, serveEVM(t, h, faults{}))
	o.Window = 5
	x, _ := follow(t, o)
	<-reached
	if s := x.Status(); s.Err != nil || s.Cursor.Block == 0 {
		t.Errorf("status after an applied block = %+v, want no error", s)
	}
	close(release)
	await(t, store.Store, h.head())
}
