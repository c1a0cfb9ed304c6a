package pending_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tipcache/tipcache/cache/pending"
	"github.com/tipcache/tipcache/upstream/expect"
)

// kept tells whether a read of the shared store is kept when it ends.
func kept(k *pending.Keys) (kept bool) {
	k.EndRead("k", func() { kept = true })
	return kept
}

func TestSharedReadIsDiscardedOnceFlightBegins(t *testing.T) {
	k := new(pending.Keys)
	if !k.BeginRead("k") || !kept(k) {
		t.Error("EndRead discarded the only read")
	}
	k.BeginRead("k")
	k.BeginFlight("k")
	k.EndFlight("k")
	if kept(k) {
		t.Error("EndRead accepted a read older than a flight")
	}
	if !k.BeginRead("k") || !kept(k) {
		t.Error("EndRead discarded the later read")
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
				t.Error("BeginRead = true for a pending key, want false")
			}
			if !k.BeginRead("another key") {
				t.Error("BeginRead = false for another key, want true")
			}
			if end(); !k.BeginRead("k") {
				t.Error("BeginRead = false after the end, want true")
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
		t.Error("BeginRead = true during the newer write, want false")
	}
	second(nil)
	if !k.BeginRead("k") {
		t.Error("BeginRead = false after both writes, want true")
	}
}

func TestKeyIsInFlightWhileItIsRead(t *testing.T) {
	k := new(pending.Keys)
	if k.UnderWay("k") {
		t.Error("unread key is pending")
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
		expect.NoError(t, k.AwaitWrite(t.Context(), "k"))
		end, heard := k.BeginWrite("k"), make(chan error, 1)
		go func() { heard <- k.AwaitWrite(t.Context(), "k") }()
		synctest.Wait()
		if len(heard) > 0 {
			t.Error("call returned before the write ended")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		expect.ErrorIs(t, k.AwaitWrite(gone, "k"), context.Canceled, "a flight that is over")
		if end(errFull); !errors.Is(<-heard, errFull) {
			t.Error("AwaitWrite: error = nil, want the failure of the write")
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
			t.Error("call returned before the write ended")
		}
		end(nil)
		if synctest.Wait(); len(waited) == 0 {
			t.Error("call still waiting after the end of the write")
		}
	})
}
