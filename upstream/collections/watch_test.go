package collections

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

func TestTheBlockOfAGenerationIsRemembered(t *testing.T) {
	var h history
	note := func(generation, block int64) {
		h.note(Mark{Generation: generation, Cursor: ledger.Cursor{Block: block}})
	}
	wants := func(generation, block int64) {
		t.Helper()
		if got := h.counted(generation); got != block {
			t.Errorf("generation %d: block %d, want %d", generation, got, block)
		}
	}
	wants(5, 0)
	note(5, 100)
	note(5, 103) // blocks without events
	note(8, 110)
	wants(4, 0) // from before
	wants(5, 103)
	wants(6, 103) // never seen: it holds what the one before does
	wants(8, 110)
	wants(9, 110)
	for generation := int64(9); generation < 9+maxHistory; generation++ {
		note(generation, 2*generation)
	}
	wants(8, 0)
	wants(9, 18)
	note(2, 7) // another store
	wants(9, 7)
	wants(1, 0)
}
