package pending_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tipcache/tipcache/cache/pending"
)

// kept tells whether a read of the shared store is kept when it ends.
func kept(k *pending.Keys) (kept bool) {
	k.EndRead("k", func() { kept = true })
	return kept
}

func TestSharedReadIsDiscardedOnceFlightBegins(t *testing.T) {
	k := new(pending.Keys)
	if !k.BeginRead("k") || !kept(k) {
		t.Error("a read alone was not kept")
	}
	k.BeginRead("k")
	k.BeginFlight("k")
	k.EndFlight("k")
	if kept(k) {
		t.Error("a read that a flight has overtaken was kept")
	}
	if !k.BeginRead("k") || !kept(k) {
		t.Error("the read after that was not kept")
	}
}

func TestPendingKeyIsNotRead(t *testing.T) {
	for name, begin := range map[string]func(k *pending.Keys) (end func()){
		"a read":   func(k *pending.Keys) func() { k.BeginRead("k"); return func() { k.EndRead("k", func() {}) } },
		"a flight": func(k *pending.Keys) func() { k.BeginFlight("k"); return func() { k.EndFlight("k") } },
		"a write":  func(k *pending.Keys) func() { end := k.BeginWrite("k"); return func() { end(nil) } },
	} {
		t.Run(name, func(t *testing.T) {
			k := new(pending.Keys)
			end := begin(k)
			if k.BeginRead("k") {
				t.Error("the shared store may be read beside it")
			}
			if !k.BeginRead("another key") {
				t.Error("another key may not be read")
			}
			if end(); !k.BeginRead("k") {
				t.Error("the shared store may not be read after it")
			}
		})
	}
}

func TestKeyIsInFlightUntilNewestWriteEnds(t *testing.T) {
	k := new(pending.Keys)
	first := k.BeginWrite("k")
	second := k.BeginWrite("k")
	first(nil)
	if k.BeginRead("k") {
		t.Error("the shared store may be read while the newer write is under way")
	}
	second(nil)
	if !k.BeginRead("k") {
		t.Error("the shared store may not be read after both")
	}
}

func TestKeyIsInFlightWhileItIsRead(t *testing.T) {
	k := new(pending.Keys)
	if k.UnderWay("k") {
		t.Error("a key that is not looked up is under way")
	}
	k.BeginRead("k")
	k.BeginFlight("other")
	for key, end := range map[string]func(){"k": func() { kept(k) }, "other": func() { k.EndFlight("other") }} {
		if !k.UnderWay(key) {
			t.Errorf("%s is not under way", key)
		}
		if end(); k.UnderWay(key) {
			t.Errorf("%s is under way after its end", key)
		}
	}
}

func TestNextFlightWaitsForWriteAndReceivesItsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, errFull := new(pending.Keys), errors.New("full")
		if err := k.AwaitWrite(t.Context(), "k"); err != nil {
			t.Errorf("without a write: %v", err)
		}
		end, heard := k.BeginWrite("k"), make(chan error, 1)
		go func() { heard <- k.AwaitWrite(t.Context(), "k") }()
		synctest.Wait()
		if len(heard) > 0 {
			t.Error("the write was not waited for")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.AwaitWrite(gone, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("a flight that is over: %v", err)
		}
		if end(errFull); !errors.Is(<-heard, errFull) {
			t.Error("the failure was not heard of")
		}
	})
}

func TestPurgeWaitsForTheWritesOfTheSelectedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, waited := new(pending.Keys), make(chan bool, 1)
		end := k.BeginWrite("selected")
		defer k.BeginWrite("another")(nil)
		go func() {
			k.AwaitWrites(t.Context(), func(key string) bool { return key == "selected" })
			waited <- true
		}()
		synctest.Wait()
		if len(waited) > 0 {
			t.Error("the write was not waited for")
		}
		end(nil)
		if synctest.Wait(); len(waited) == 0 {
			t.Error("it waits after the end of the write")
		}
	})
}
