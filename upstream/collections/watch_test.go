package collections

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestBlockOfGenerationIsCached(t *testing.T) {
	var h Watch
	add := func(generation, block int64) {
		h.add(Mark{Generation: generation, Cursor: ledger.Cursor{Block: block}}, time.Unix(generation, 0))
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

func TestGenerationOfCountedBlockIsFound(t *testing.T) {
	var h Watch
	for i, m := range [][2]int64{{5, 100}, {5, 103}, {8, 110}, {9, 108}, {12, 120}} { // 9 is a store that was rebuilt
		h.add(Mark{Generation: m[0], Cursor: ledger.Cursor{Block: m[1]}}, time.Unix(int64(i), 0))
	}
	for block, want := range map[int64]int64{99: 5, 103: 5, 104: 8, 108: 8, 109: 12, 120: 12, 121: 0} {
		if got, _ := h.Since(block); got != want {
			t.Errorf("generation since which block %d is counted = %d, want %d", block, got, want)
		}
	}
	if _, seen := h.Since(101); !seen.Equal(time.Unix(0, 0)) {
		t.Errorf("generation 5 was first seen at %d, want 0", seen.Unix())
	}
}
