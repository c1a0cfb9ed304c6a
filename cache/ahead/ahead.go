// Package ahead selects the keys that are read when a block arrives, before a caller requests them.
//
// A read ahead that no caller uses burdens the origin for nothing. A key is therefore selected only after at least two
// requests in each of the last two blocks. A key whose read was unused or failed is deselected, and needs twice as many
// blocks to be selected again.
package ahead

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// Often is the minimum number of requests in a block to read a key ahead.
const Often = 2

const (
	minStreak   = 2       // consecutive blocks with Often requests that a key needs
	maxStreak   = 1 << 10 // maximum for a key whose reads were unused again and again
	forgetAfter = 4 << 10 // idle blocks after which unused reads are forgotten
	maxKeys     = 8_000   // maximum number of keys, including idle ones
	crowded     = 4_000   // number of keys above which idle ones are forgotten to make room for others; more than a node can serve in a tenth of a block
)

// Keys holds the selected keys and candidates, each with the data needed to read it. The zero Keys is empty and
// accepts none before the first block. It is safe for concurrent use.
type Keys[T any] struct {
	mu     sync.Mutex
	height int64 // of the newest block; 0 before the first
	byName map[string]*key[T]
}

type key[T any] struct {
	value      T    // zero if streak is 0 when a block begins
	streak     int  // consecutive blocks with Often requests
	needs      int  // streak needed to be read ahead
	idleBlocks int  // blocks since its streak broke; 0 during a streak
	wasRead    bool // read ahead for the newest block
}

// Key is a key to read now.
type Key[T any] struct {
	Name  string
	Value T
}

// Record adds a key that was requested often in the previous block, or replaces its value.
func (k *Keys[T]) Record(name string, value T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch at := k.byName[name]; {
	case at != nil:
		at.value, at.streak, at.idleBlocks = value, max(at.streak, 1), 0
	case k.height > 0 && len(k.byName) < maxKeys:
		k.byName[name] = &key[T]{value: value, streak: 1, needs: minStreak}
	}
}

// Next begins a block. requests returns how often a key was requested in the previous block, or false if that is
// unknown. Next returns the keys to read for the block, in any order, and how many reads for the previous block
// were unused. After a gap between blocks, all keys must be selected again.
func (k *Keys[T]) Next(height int64, requests func(name string) (times int, ok bool)) (read []Key[T], unused int) {
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
			if at.endBlock(requests(name)) {
				unused++
			}
		}
		at.wasRead = false
		if at.streak >= at.needs {
			read = append(read, Key[T]{name, at.value})
		}
		if at.streak > 0 {
			continue
		}
		at.value = *new(T) // Record brings another one, and the value may hold a long request
		if at.needs == minStreak || at.idleBlocks > forgetAfter || len(k.byName) > crowded {
			delete(k.byName, name)
		}
	}
	rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] }) // replicas start with different keys
	return read, unused
}

// endBlock ends a block for a key and reports whether its read was unused.
func (at *key[T]) endBlock(times int, known bool) (unused bool) {
	unused = known && at.wasRead && times == 0
	if unused {
		at.needs = min(2*at.needs, maxStreak)
	} else if at.wasRead {
		at.needs = max(at.needs-1, minStreak)
	}
	if at.streak++; !known || times < Often {
		at.streak = 0
	}
	return unused
}

// Finish records the result of reading a key for the newest block. A key whose read failed is deselected.
func (k *Keys[T]) Finish(name string, result Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch at := k.byName[name]; {
	case at == nil:
	case result == Origin:
		at.wasRead = true
	case result == Failed:
		at.streak, at.needs = 0, min(2*at.needs, maxStreak)
	}
}

// Has reports whether a key will be read at the next block if it has Often requests in this one.
func (k *Keys[T]) Has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.byName[name]
	return at != nil && at.streak > 0 && at.streak+1 >= at.needs
}

// Forget deselects all keys.
func (k *Keys[T]) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, at := range k.byName {
		at.value = *new(T)
		if at.streak, at.wasRead = 0, false; at.needs == minStreak {
			delete(k.byName, name)
		}
	}
}

// Block describes a new block and limits the reads of its round.
type Block struct {
	Height    int64
	MaxHeight int64         // highest plausible height of the chain; 0 means no limit
	Time      time.Duration // maximum duration of the round. A read expected to take longer is not started
	Room      func() bool   // reports whether the origin has capacity for a read ahead
}

// Result is the result for a key that was to be read.
type Result int

// The results.
const (
	Needless Result = iota // already read or being read
	Origin                 // read from the origin
	Shared                 // another replica had read it
	Yielded                // the origin had no capacity in time
	Failed                 // the read failed, perhaps for this key alone, which is deselected
	unused                 // Origin, but no caller requested it

	results
)

// Busy is the result for a key that the round reads later, because the origin has no capacity now.
const Busy Result = -1

// String returns a result other than Busy as in metrics.
func (r Result) String() string {
	return [...]string{"needless", "origin", "shared", "yielded", "failed", "unused"}[r]
}

// Counts counts keys by result. Keys that no caller requested are counted again as unused.
type Counts [results]atomic.Uint64

const (
	maxConcurrent = 16            // reads ahead at a time
	maxFailed     = maxConcurrent // failed reads in a row that mean that the origin is down
)

// Round reads the selected keys, as many at a time as the origin has capacity for, until the block's time is over. If the
// origin is down, the round ends, and all keys are deselected. requests is as in [Keys.Next]. read reads a key, unless it
// expects to exceed the time left.
func (k *Keys[T]) Round(ctx context.Context, b Block, n *Counts, requests func(name string) (times int, ok bool), read func(v T, left time.Duration) Result) {
	end := time.Now().Add(b.Time)
	keys, wasted := k.Next(b.Height, requests)
	n[unused].Add(uint64(wasted)) //nolint:gosec // not negative
	ctx, fail := context.WithCancel(ctx)
	defer fail()
	waiting := make(chan Key[T], len(keys))
	for _, key := range keys {
		waiting <- key
	}
	var failed atomic.Int64 // reads since the last one that succeeded, here or at another replica
	var readers sync.WaitGroup
	for range min(maxConcurrent, len(keys)) {
		readers.Go(func() {
			pause := b.pause()
			for b.awaitCapacity(ctx, end) {
				select {
				case key := <-waiting:
					switch k.readKey(key, n, read, end) {
					case Busy:
						waiting <- key
						_ = upstream.Sleep(ctx, min(time.Until(end), pause))
						pause *= 2 // fewer and fewer useless leases
					case Origin, Shared:
						failed.Store(0)
					case Failed:
						if failed.Add(1) >= maxFailed {
							k.Forget()
							fail()
						}
					}
				default:
					return
				}
			}
		})
	}
	readers.Wait()
	if ctx.Err() == nil {
		n[Yielded].Add(uint64(len(waiting)))
	}
}

// readKey reads one key and, unless the origin is busy, counts the result.
func (k *Keys[T]) readKey(key Key[T], n *Counts, read func(v T, left time.Duration) Result, end time.Time) Result {
	result := read(key.Value, time.Until(end))
	if result != Busy {
		k.Finish(key.Name, result)
		n[result].Add(1)
	}
	return result
}

// awaitCapacity waits until the origin has capacity. It returns false if the time is over or ctx has ended.
func (b *Block) awaitCapacity(ctx context.Context, end time.Time) bool {
	for ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 || b.Room() {
			return left > 0
		}
		_ = upstream.Sleep(ctx, min(left, b.pause()))
	}
	return false
}

// pause is the time after which a reader looks for capacity again.
func (b *Block) pause() time.Duration { return max(b.Time/16, time.Millisecond) }
