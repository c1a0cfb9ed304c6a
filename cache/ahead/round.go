package ahead

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Block is what a round is told of the block that has come, and what it may cost.
type Block struct {
	Height    int64
	MaxHeight int64         // the highest height that can be believed; 0: any
	Time      time.Duration // for the round. No read begins that is not expected to end within it
	Room      func() bool   // tells whether the origin could carry out a read that no caller waits for
}

// A Result is what became of a key that was to be read.
type Result int

// The results.
const (
	Needless Result = iota // it was read already, or is being read
	Origin                 // it was read
	Shared                 // another replica had read it
	Yielded                // the origin had no room
	Failed                 // the origin failed: no other read begins in the round, and all keys have to earn their places anew
	unused                 // Origin, but no caller asked for it

	results
)

// String gives the result as metrics have it.
func (r Result) String() string {
	return [...]string{"needless", "origin", "shared", "yielded", "failed", "unused"}[r]
}

// Counts are the keys that were to be read, by result. Keys that no caller asked for
// are counted once more.
type Counts [results]atomic.Uint64

// atOnce is how many keys are read ahead at the same time where the origin has the room.
const atOnce = 16

// Round reads the keys that have a place, as many at a time as the origin has room for, as
// long as the block's time lasts. asked is as in [Keys.Next]; read reads a key unless that is
// expected to take longer than is left.
func (k *Keys[T]) Round(ctx context.Context, b Block, n *Counts, asked func(name string) (times int, ok bool), read func(v T, left time.Duration) Result) {
	end := time.Now().Add(b.Time)
	keys, wasted := k.Next(b.Height, asked)
	n[unused].Add(uint64(wasted)) //nolint:gosec // not negative
	ctx, fail := context.WithCancel(ctx)
	defer fail()
	var all sync.WaitGroup
	var next atomic.Int64
	for range min(atOnce, len(keys)) {
		all.Go(func() {
			for i := next.Add(1); i <= int64(len(keys)) && b.awaitRoom(ctx, end); i = next.Add(1) {
				if !k.read(keys[i-1], n, read, end) {
					fail()
				}
			}
		})
	}
	all.Wait()
}

// read reads one key, and tells whether the origin is well.
func (k *Keys[T]) read(key Key[T], n *Counts, read func(v T, left time.Duration) Result, end time.Time) (well bool) {
	result := read(key.Value, time.Until(end))
	n[result].Add(1)
	switch result {
	case Origin:
		k.Read(key.Name)
	case Failed:
		k.Forget()
	}
	return result != Failed
}

// awaitRoom waits for a moment when the origin could carry out a read that no caller waits
// for.
func (b *Block) awaitRoom(ctx context.Context, end time.Time) bool {
	for ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 || b.Room() {
			return left > 0
		}
		pause := time.NewTimer(min(left, max(b.Time/16, time.Millisecond)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
	return false
}
