package pending_test

import (
	"testing"

	"github.com/tipcache/tipcache/cache/pending"
)

// kept tells whether a read of the shared store is kept when it ends.
func kept(k *pending.Keys) (kept bool) {
	k.EndRead("k", func() { kept = true })
	return kept
}

func TestASharedReadIsForgottenWhenAFlightHasBegun(t *testing.T) {
	k := pending.New()
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

func TestNothingIsReadBesideWhatIsUnderWay(t *testing.T) {
	for name, begin := range map[string]func(k *pending.Keys) (end func()){
		"a read":   func(k *pending.Keys) func() { k.BeginRead("k"); return func() { k.EndRead("k", func() {}) } },
		"a flight": func(k *pending.Keys) func() { k.BeginFlight("k"); return func() { k.EndFlight("k") } },
		"a write":  func(k *pending.Keys) func() { end := k.BeginWrite("k"); return func() { end(nil) } },
	} {
		t.Run(name, func(t *testing.T) {
			k := pending.New()
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

func TestTheEndOfAnOlderWriteLeavesTheNewerOneUnderWay(t *testing.T) {
	k := pending.New()
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
