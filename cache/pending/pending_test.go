package pending_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tipcache/tipcache/cache/pending"
	"github.com/tipcache/tipcache/upstream/expect"
)

// endRead ends a read of the shared store and reports whether its result is accepted.
func endRead(k *pending.Keys) (accepted bool) {
	k.EndRead("k", func() { accepted = true })
	return accepted
}

func TestSharedReadIsDiscardedOnceFlightBegins(t *testing.T) {
	k := new(pending.Keys)
	if !k.BeginRead("k") || !endRead(k) {
		t.Error("EndRead discarded the only read")
	}
	k.BeginRead("k")
	k.BeginFlight("k")
	k.EndFlight("k")
	if endRead(k) {
		t.Error("EndRead accepted a read older than a flight")
	}
	if !k.BeginRead("k") || !endRead(k) {
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

func TestKeyIsUnreadableUntilNewestWriteEnds(t *testing.T) {
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

func TestKeyIsUnderWayDuringReadOrFlight(t *testing.T) {
	k := new(pending.Keys)
	expect.Equal(t, k.UnderWay("k"), false, "UnderWay of an unread key")
	k.BeginRead("k")
	k.BeginFlight("other")
	for key, end := range map[string]func(){"k": func() { endRead(k) }, "other": func() { k.EndFlight("other") }} {
		expect.Equal(t, k.UnderWay(key), true, "UnderWay(%s)", key)
		end()
		expect.Equal(t, k.UnderWay(key), false, "UnderWay(%s) after its end", key)
	}
}

func TestNextFlightWaitsForWriteAndReceivesItsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, errFull := new(pending.Keys), errors.New("full")
		expect.NoError(t, k.AwaitWrite(t.Context(), "k"))
		end, awaited := k.BeginWrite("k"), make(chan error, 1)
		go func() { awaited <- k.AwaitWrite(t.Context(), "k") }()
		synctest.Wait()
		if len(awaited) > 0 {
			t.Error("AwaitWrite returned before the write ended")
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		expect.ErrorIs(t, k.AwaitWrite(canceled, "k"), context.Canceled, "AwaitWrite of a canceled flight")
		end(errFull)
		expect.ErrorIs(t, <-awaited, errFull, "AwaitWrite")
	})
}

func TestAwaitWritesWaitsForSelectedKeys(t *testing.T) {
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
			t.Error("AwaitWrites returned before the write ended")
		}
		end(nil)
		if synctest.Wait(); len(waited) == 0 {
			t.Error("AwaitWrites still waits after the end of the write")
		}
	})
}
