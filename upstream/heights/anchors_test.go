package heights

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

func TestNewestHashesAreKept(t *testing.T) {
	var a hashTable
	for height := int64(1); height <= 3*rememberedHashes; height++ {
		a.add(height, fmt.Sprint("hash of ", height), nil)
	}
	a.add(1, "too old", nil)
	oldest := int64(2*rememberedHashes + 1)
	if a.at(oldest) != "hash of 8193" || a.at(oldest-1) != "" || a.atOrBelow(oldest) != oldest || a.atOrBelow(oldest-1) != 0 {
		t.Errorf("at(%d) = %q, want the hash; at of the block before = %q, want none", oldest, a.at(oldest), a.at(oldest-1))
	}
	if height := a.newest(); height != 3*rememberedHashes || a.at(height) != "hash of 12288" || a.atOrBelow(1<<40) != height {
		t.Errorf("newest = %d with %q, want %d with hash of 12288", height, a.at(height), 3*rememberedHashes)
	}
}

func TestReplacedAfterRollback(t *testing.T) {
	c := New(Options{Interval: time.Second, RollbackAfter: time.Minute})
	c.Add(&Node{Name: "a", Logger: slog.New(slog.DiscardHandler)})
	addBlocks := func(from, to int64, chain string) {
		for height := from; height <= to; height++ {
			c.hashes.add(height, fmt.Sprintf("%sABCDEF%04d", chain, height), nil)
		}
	}
	addBlocks(90, 99, "A0")
	c.hashes.beginEpoch(func() {})
	addBlocks(80, 94, "B0")
	for _, tt := range []struct {
		height   int64
		prefix   string
		replaced bool
	}{
		{92, "A0", true}, {92, "B0", false}, {92, "b0abc", false}, // the height has another block
		{97, "A0ab", true}, {97, "C0", false}, {97, "B0", false}, // rolled back
		{79, "A0", false}, {200, "A0", false}, {0, "A0", false}, {-1, "A0", false}, // unknown
	} {
		expect.Equal(t, c.Replaced(tt.height, tt.prefix), tt.replaced, "Replaced(%d, %s)", tt.height, tt.prefix)
	}
	for height, want := range map[int64]string{92: "B0ABCDEF0092", 97: "A0ABCDEF0097", 200: "", 0: ""} {
		expect.Equal(t, c.HashOf(height), want, "HashOf(%d)", height)
	}
	c.tip.Accept(0, tip.Claim{Height: 1000}) // hashes of the previous epoch apply only above the tip
	if c.Replaced(97, "A0") || c.HashOf(97) != "" {
		t.Error("block 97 counts as replaced or has a hash below the new tip, want it unknown")
	}
}

func TestHashesAreForgottenBeforeTheirEpochEnds(t *testing.T) {
	a, over := new(hashTable), false
	current := func() bool { return !over }
	a.addAll(map[int64]string{7: "old"}, nil, current)
	if got := a.at(7); got != "old" {
		t.Fatalf("at(7) = %q, want old", got)
	}
	a.beginEpoch(func() {
		expect.Equal(t, a.at(7), "", "at(7) at the beginning of the new epoch")
		over = true
	})
	if a.addAll(map[int64]string{8: "old"}, nil, current); a.at(8) != "" {
		t.Errorf("at(8) = %q from the previous epoch, want none", a.at(8))
	}
}

// A hash that only the headers of one subscription have had is not shared with other replicas.
func TestHashOfOneSourceIsConfirmedByAnotherOrByTheEndOfItsSubscription(t *testing.T) {
	var a hashTable
	one, other := new(heightSource), new(heightSource)
	confirmed := func(want int64) {
		t.Helper()
		height, _ := a.confirmed()
		expect.Equal(t, height, want, "newest confirmed hash")
	}
	confirmed(0)
	a.add(1, "a", nil)
	a.add(2, "b", one)
	a.add(2, "b", one)
	a.add(3, "c", one)
	confirmed(1)
	a.add(2, "b", other)
	confirmed(2)
	a.endSubscription(other)
	confirmed(2)
	a.endSubscription(one)
	confirmed(3)
}
