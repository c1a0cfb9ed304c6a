// Package ahead chooses the keys that are read as soon as a block comes, before
// a caller asks for them.
//
// A read ahead that no caller uses is one that the origin was asked in vain. So a
// key has to earn its place: it is read ahead once it was asked for at least twice
// in each of the last two blocks. A key whose read went unused loses its place,
// and earns it back in twice as many blocks as before.
package ahead

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// Often is how many times a key is asked for in a block, at least, to be read ahead.
const Often = 2

const (
	minStreak   = 2       // blocks in a row, each with Often asks, that a key needs
	maxStreak   = 1 << 10 // of a key whose reads went unused again and again
	forgetAfter = 4 << 10 // idle blocks after which it is forgotten that reads went unused
	maxKeys     = 8_000   // that can have a place: more than a node gives in a tenth of a block
)

// Keys are the keys that have a place, or are about to earn one, each with what is
// needed to read it. The zero Keys has none, and accepts none before the first
// block. It is safe for concurrent use.
type Keys[T any] struct {
	mu     sync.Mutex
	height int64 // of the newest block; 0: none yet
	byName map[string]*key[T]
}

type key[T any] struct {
	value      T
	streak     int  // blocks in a row in which it was asked for often
	needs      int  // so many to be read ahead
	idleBlocks int  // since its streak broke
	read       bool // it was read ahead for the newest block
}

// A Key is one to be read now.
type Key[T any] struct {
	Name  string
	Value T
}

// Note begins the streak of a key that was asked for often in the block before the
// newest, or has its value be another one.
func (k *Keys[T]) Note(name string, value T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch at := k.byName[name]; {
	case at != nil:
		at.value, at.streak = value, max(at.streak, 1)
	case k.height > 0 && len(k.byName) < maxKeys:
		k.byName[name] = &key[T]{value: value, streak: 1, needs: minStreak}
	}
}

// Next begins a block. asked tells how often a key was asked for in the block
// before; not ok says that this is not known any more. It gives the keys to be read
// for the block, in any order, and how many reads for the one before went unused.
// Where blocks were left out it is not known what was asked for in each: all keys
// have to earn their places anew.
func (k *Keys[T]) Next(height int64, asked func(name string) (times int, ok bool)) (read []Key[T], unused int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byName == nil {
		k.byName = map[string]*key[T]{}
	}
	gap := height != k.height+1
	k.height = height
	for name, at := range k.byName {
		switch {
		case at.streak == 0:
			at.idleBlocks++
		case gap:
			at.streak = 0
		default:
			if at.endBlock(asked(name)) {
				unused++
			}
		}
		at.read = false
		if at.streak >= at.needs {
			read = append(read, Key[T]{name, at.value})
		}
		if at.streak == 0 && (at.needs == minStreak || at.idleBlocks > forgetAfter) {
			delete(k.byName, name)
		}
	}
	rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] }) // replicas begin with different ones
	return read, unused
}

// endBlock ends a block for a key, and tells whether its read went unused.
func (at *key[T]) endBlock(times int, known bool) (unused bool) {
	unused = known && at.read && times == 0
	if unused {
		at.needs = min(2*at.needs, maxStreak)
	} else if at.read {
		at.needs = max(at.needs-1, minStreak)
	}
	if at.streak++; !known || times < Often {
		at.streak, at.idleBlocks = 0, 0
	}
	return unused
}

// Read notes that a key was read ahead for the newest block.
func (k *Keys[T]) Read(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := k.byName[name]; at != nil {
		at.read = true
	}
}

// Has tells whether a key is to be read when the next block comes, if it is asked
// for as often in this one.
func (k *Keys[T]) Has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.byName[name]
	return at != nil && at.streak > 0 && at.streak+1 >= at.needs
}

// Forget has all keys earn their places anew.
func (k *Keys[T]) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, at := range k.byName {
		if at.streak, at.read = 0, false; at.needs == minStreak {
			delete(k.byName, name)
		}
	}
}

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
		_ = upstream.Sleep(ctx, min(left, max(b.Time/16, time.Millisecond)))
	}
	return false
}
