package heights

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

func TestTheHashesOfTheNewestBlocksAreRemembered(t *testing.T) {
	var a anchors
	for height := int64(1); height <= 3*rememberedHashes; height++ {
		a.note(height, fmt.Sprint("hash of ", height))
	}
	a.note(1, "too old")
	oldest := int64(2*rememberedHashes + 1)
	if a.at(oldest) != "hash of 8193" || a.at(oldest-1) != "" || a.atOrBelow(oldest) != oldest || a.atOrBelow(oldest-1) != 0 {
		t.Errorf("block %d has the hash %q, and the one before it %q", oldest, a.at(oldest), a.at(oldest-1))
	}
	if height, hash := a.newest(); height != 3*rememberedHashes || hash != "hash of 12288" || a.atOrBelow(1<<40) != height {
		t.Errorf("the newest is block %d, %q", height, hash)
	}
}

func TestABlockIsReplacedWhereTheChainWasSetBackBehindIt(t *testing.T) {
	c := New(Options{Interval: time.Second, RollbackAfter: time.Minute}, &Node{Name: "a", Logger: slog.New(slog.DiscardHandler)})
	note := func(from, to int64, chain string) {
		for height := from; height <= to; height++ {
			c.anchors.note(height, fmt.Sprintf("%sABCDEF%04d", chain, height))
		}
	}
	note(90, 99, "A0")
	c.anchors.turn(func() {})
	note(80, 94, "B0")
	for _, tt := range []struct {
		height   int64
		prefix   string
		replaced bool
	}{
		{92, "A0", true}, {92, "B0", false}, {92, "b0abc", false}, // it has another in that place
		{97, "A0ab", true}, {97, "C0", false}, {97, "B0", false}, // it had this one
		{79, "A0", false}, {200, "A0", false}, {0, "A0", false}, {-1, "A0", false}, // nothing is known
	} {
		if got := c.Replaced(tt.height, tt.prefix); got != tt.replaced {
			t.Errorf("block %d, %s: replaced %t", tt.height, tt.prefix, got)
		}
	}
	for height, want := range map[int64]string{92: "B0ABCDEF0092", 97: "A0ABCDEF0097", 200: "", 0: ""} {
		if got := c.HashOf(height); got != want {
			t.Errorf("block %d has the hash %q", height, got)
		}
	}
	c.tip.Accept(0, tip.Claim{Height: 1000}) // what was above the tip is below it now, and not known any more
	if c.Replaced(97, "A0") || c.HashOf(97) != "" {
		t.Error("a block that the chain has grown past is told to be another")
	}
}

func TestHashesAreForgottenBeforeTheirEpochEnds(t *testing.T) {
	a, over := new(anchors), false
	current := func() bool { return !over }
	a.noteAll(map[int64]string{7: "old"}, current)
	if got := a.at(7); got != "old" {
		t.Fatalf("at(7) = %q, want old", got)
	}
	a.turn(func() {
		if got := a.at(7); got != "" {
			t.Errorf("at(7) = %q when the new epoch begins, want none", got)
		}
		over = true
	})
	if a.noteAll(map[int64]string{8: "old"}, current); a.at(8) != "" {
		t.Errorf("at(8) = %q, which was read in the epoch before, want none", a.at(8))
	}
}
