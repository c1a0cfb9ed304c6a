package indexer

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newPart returns one block with a number of events.
func newPart(number int64, events int) *blocks {
	hash := func(n int64) ledger.Hash { return ledger.Hash{30: byte(n >> 8), 31: byte(n)} }
	s := span{number, number}
	b := &blocks{span: s, calls: []span{s}, parent: hash(number - 1), last: ledger.Cursor{Block: number, Hash: hash(number)}}
	for range events {
		b.events = append(b.events, Event{Block: number})
	}
	return b
}

// gatherAll sends parts to gather, and receives from it whenever it blocks.
func gatherAll(t *testing.T, all ...*blocks) (gathered []*blocks) {
	synctest.Test(t, func(t *testing.T) {
		parts, out := make(chan *blocks), make(chan *blocks)
		go func() {
			defer close(parts)
			for _, b := range all {
				parts <- b
			}
		}()
		ended := make(chan error, 1)
		go func() { ended <- gather(t.Context(), parts, out, 0) }()
		for synctest.Wait(); ; synctest.Wait() {
			b, more := <-out
			if !more {
				break
			}
			gathered = append(gathered, b)
		}
		expect.NoError(t, <-ended)
	})
	return gathered
}

func TestWaitingPartsAreMerged(t *testing.T) {
	got := gatherAll(t, newPart(1, 2), newPart(2, 0), newPart(3, 5))
	if len(got) != 1 || got[0].span != (span{1, 3}) || got[0].last.Block != 3 || len(got[0].events) != 7 {
		t.Fatalf("gathered %+v, want blocks 1 to 3 with 7 events", got)
	}
	for i, n := range []int64{1, 1, 3, 3, 3, 3, 3} {
		expect.Equal(t, got[0].events[i].Block, n, "block of event %d", i)
	}
}

func TestEachCallForLogsIsConfirmed(t *testing.T) {
	b := gatherAll(t, newPart(1, 1), newPart(2, 1000), newPart(3, 0), newPart(4, 1))[0]
	confirmed := map[int64]bool{}
	for _, c := range b.claims(ledger.Cursor{}) {
		confirmed[c.block] = true
	}
	expect.NoDiff(t, confirmed, map[int64]bool{1: true, 2: true, 4: true}, "confirmed blocks")
}

func TestTooManyEventsAreNotJoined(t *testing.T) {
	got := gatherAll(t, newPart(1, maxGathered-1), newPart(2, 1), newPart(3, 1), newPart(4, maxGathered+1), newPart(5, 1))
	var sizes []int
	for _, b := range got {
		sizes = append(sizes, len(b.events))
	}
	expect.NoDiff(t, sizes, []int{maxGathered, 1, maxGathered + 1, 1}, "events of the joined parts")
}

func TestBlocksThatDoNotContinueAreNotJoined(t *testing.T) {
	other := newPart(2, 1)
	other.parent = ledger.Hash{1}
	if got := gatherAll(t, newPart(1, 1), other); len(got) != 2 || got[0].to != 1 || got[1] != other {
		t.Errorf("gathered %+v, want block 1, then the unrelated one", got)
	}
}

func TestGatheringEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.ErrorIs(t, gather(ctx, nil, make(chan *blocks), 0), context.Canceled, "gather")
}

func TestMissingPartEndsBatch(t *testing.T) {
	windows, parts := make(chan window, 2), make(chan *blocks, 9)
	first, second := window{span{1, 3}, make(chan *blocks, 3)}, window{span{4, 5}, make(chan *blocks, 3)}
	first.parts <- newPart(1, 0)
	close(first.parts) // its fetch failed
	second.parts <- newPart(4, 0)
	windows <- first
	windows <- second
	expect.NoError(t, inOrder(t.Context(), windows, parts))
	if b := <-parts; b.to != 1 {
		t.Errorf("first part = %+v, want block 1", b)
	}
	if b, more := <-parts; more {
		t.Errorf("part after a missing one = %+v, want none", b)
	}
}
