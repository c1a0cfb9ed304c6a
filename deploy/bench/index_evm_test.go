package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/indexer"
)

func TestTheClientIsIndexed(t *testing.T) {
	r := &indexRun{
		url: "sqlite:" + filepath.Join(t.TempDir(), "c.db"),
		evm: evm{chain: chain{head: 5000, logs: 3333}, most: 100, rate: &allowance{perSecond: 1e6}},
	}
	stop, err := r.evm.serve()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	store, err := collections.Open(t.Context(), r.url, collections.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	x, err := indexer.New(indexer.Options{Endpoints: []string{r.evm.url}, Network: story, Store: store, From: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.check(t.Context()); err != nil {
		t.Error(err)
	}
	r.note(time.Second, usage{})
	if m := r.last(); m.blocks != 5000 || m.logs != 3333 || m.calls < m.requests {
		t.Errorf("noted %+v", m)
	}
	r.evm.logs += logCycle
	if err := r.check(t.Context()); err == nil {
		t.Error("logs that were not indexed are not missed")
	}
}

func TestAllowancesAreUsedUp(t *testing.T) {
	a := &allowance{perSecond: 10}
	if !a.take(10) || a.take(5) {
		t.Error("more than the allowance, or less")
	}
	a.at = a.at.Add(-500 * time.Millisecond)
	if !a.take(5) {
		t.Error("time brings nothing")
	}
	if unlimited := (*allowance)(nil); !unlimited.take(1000) {
		t.Error("no allowance is a limit")
	}
}
