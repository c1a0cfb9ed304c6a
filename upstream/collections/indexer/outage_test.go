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

	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// A logbook is what is logged.
type logbook struct{ logtest.Log }

// says waits until something was logged, and fails unless that is so once.
func (l *logbook) says(t *testing.T, what string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q", what), func() bool { return strings.Contains(l.String(), what) })
	if n := l.Count(what); n != 1 {
		t.Errorf("%d lines with %q, want 1:\n%s", n, what, l.String())
	}
}

func TestIndexerWaitsForClientBehindStore(t *testing.T) {
	h := newHistory(9)
	h.grow(80)
	store := open(t, memory(t))
	evm := serveEVM(t, h, faults{})
	run(t, quick(store, evm))
	evm.set(faults{lag: 40}) // a restored snapshot
	log := &logbook{}
	o := quick(store, evm)
	o.Follow, o.Logger, o.Grace = true, slog.New(slog.NewTextHandler(log, nil)), 50*time.Millisecond
	x := follow(t, o)
	log.says(t, "indexing stopped")
	if s := x.Status(); s.Err == nil || s.Ended || !strings.Contains(s.Err.Error(), "the store is at block 89") {
		t.Errorf("status = %+v, want running with an error at block 89", s)
	}
	h.grow(20)
	evm.asked(t, 2)
	evm.set(faults{})
	await(t, store, h.head())
	log.says(t, "indexing resumed")
	evm.asked(t, 2)
	log.says(t, "indexing resumed")
	log.says(t, "indexing stopped")
	expect(t, store, h.count(0))
}

func TestEndpointOfAnotherChainDoesNotEndTheRun(t *testing.T) {
	h := newHistory(9)
	h.grow(30)
	for name, f := range map[string]faults{"another chain": {chainID: 1}, "no access": {status: http.StatusForbidden}, "no client": {status: http.StatusNotFound}} {
		store := open(t, memory(t))
		log := &logbook{}
		o := quick(store, serveEVM(t, h, f), serveEVM(t, h, faults{}))
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		run(t, o)
		expect(t, store, h.count(0))
		if t.Failed() {
			t.Fatal(name)
		}
		log.says(t, `msg="execution client failed, using the next one"`)
	}
}

func TestHangingEndpointDelaysLittle(t *testing.T) {
	t.Parallel()
	h := newHistory(9)
	h.grow(30)
	store := open(t, memory(t))
	o := quick(store, serveEVM(t, h, faults{hangs: true}), serveEVM(t, h, faults{}))
	o.Timeout = time.Hour
	run(t, o)
}

func TestOutageOfClientIsLoggedAtStartAndEnd(t *testing.T) {
	t.Parallel()
	h := newHistory(9)
	h.grow(30)
	store := open(t, memory(t))
	evm, log := serveEVM(t, h, faults{}), &logbook{}
	o := quick(store, evm)
	o.Follow, o.Logger = true, slog.New(slog.NewTextHandler(log, nil))
	follow(t, o)
	await(t, store, h.head())
	evm.set(faults{status: http.StatusBadGateway})
	log.says(t, `msg="upstream unreachable" origin="execution client 127.0.0.1`)
	h.grow(5)
	evm.asked(t, 2)
	evm.set(faults{})
	log.says(t, `msg="upstream reachable again" origin="execution client 127.0.0.1`)
	await(t, store, h.head())
	log.says(t, "502 Bad Gateway")
}

func TestSecretsEchoedByEndpointAreRedacted(t *testing.T) {
	t.Parallel()
	h := newHistory(9)
	h.grow(30)
	const key = "sEcReT-k3y"
	for name, f := range map[string]faults{
		"forbidden":           {status: http.StatusForbidden, echoes: "key " + key + " is unknown"},
		"refused":             {status: http.StatusBadRequest, echoes: "no project /v3/" + key},
		"cut":                 {status: http.StatusBadRequest, echoes: strings.Repeat("x", 195) + key},
		"in lower case":       {status: http.StatusNotFound, echoes: strings.ToLower("no such key " + key)},
		"not JSON":            {status: http.StatusOK, echoes: "<html>" + key},
		"JSON, but no answer": {status: http.StatusOK, echoes: `{"error":{"code":-32601,"message":"` + key + ` may not"}}`},
	} {
		log := &logbook{}
		o := quick(open(t, memory(t)), serveEVM(t, h, f))
		o.Endpoints[0] += "/v3/" + key
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		err := index(t.Context(), o)
		if !errors.Is(err, indexer.ErrForbidden) {
			t.Errorf("%s: error %v, want %v", name, err, indexer.ErrForbidden)
		}
		if said := strings.ToLower(log.String() + err.Error()); strings.Contains(said, strings.ToLower(key)[:6]) {
			t.Errorf("%s: want no key in the log and the error:\n%s", name, said)
		}
	}
}

// A panickyStore panics at its first tally.
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
	h := newHistory(9)
	h.grow(50)
	store := open(t, memory(t))
	o := quick(&panickyStore{Store: store}, serveEVM(t, h, faults{}))
	o.Follow = true
	follow(t, o)
	await(t, store, h.head())
	expect(t, store, h.count(0))
}
