package collections

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestBlockOfGenerationIsCached(t *testing.T) {
	var h Watch
	add := func(generation, block int64) {
		h.add(Mark{Generation: generation, Cursor: ledger.Cursor{Block: block}})
	}
	wantBlock := func(generation, block int64) {
		t.Helper()
		expect.Equal(t, h.Counted(generation), block, "block of generation %d", generation)
	}
	wantBlock(5, 0)
	add(5, 100)
	add(5, 103) // blocks without events
	add(8, 110)
	wantBlock(4, 0) // before the first mark
	wantBlock(5, 103)
	wantBlock(6, 103) // missed, so the previous generation counts
	wantBlock(8, 110)
	wantBlock(9, 110)
	for generation := int64(9); generation < 9+maxHistory; generation++ {
		add(generation, 2*generation)
	}
	wantBlock(8, 0)
	wantBlock(9, 18)
	add(2, 7) // another store
	wantBlock(9, 7)
	wantBlock(1, 0)
}
