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

// Keys selects keys. It accepts none before the first block. It is safe for concurrent use.
type Keys[T any] struct {
	records Records[T]

	mu     sync.Mutex
	height int64 // of the newest block; 0 before the first
	known  int   // number of streaks
}

// Records hold the streaks of keys. Their methods are safe for concurrent use.
type Records[T any] interface {
	// Change replaces the streak of a key, nil for none, by what do returns for it.
	Change(name string, do func(*Streak[T]) *Streak[T])
	// ChangeAll replaces all streaks.
	ChangeAll(do func(name string, s *Streak[T]) *Streak[T])
}

// New returns Keys whose streaks are in records.
func New[T any](records Records[T]) *Keys[T] { return &Keys[T]{records: records} }

// A Streak says how often a key was requested lately, and has the data needed to read it.
type Streak[T any] struct {
	value      T    // zero if blocks is 0 when a block begins
	blocks     int  // consecutive blocks with Often requests
	needs      int  // blocks needed to be read ahead
	idleBlocks int  // blocks since the streak broke; 0 during a streak
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
	k.records.Change(name, func(s *Streak[T]) *Streak[T] {
		switch {
		case s != nil:
			s.value, s.blocks, s.idleBlocks = value, max(s.blocks, 1), 0
		case k.height > 0 && k.known < maxKeys:
			s = &Streak[T]{value: value, blocks: 1, needs: minStreak}
			k.known++
		}
		return s
	})
}

// Next begins a block. requests returns how often a key was requested in the previous block, or false if that is
// unknown. Next returns the keys to read for the block, in any order, and how many reads for the previous block
// were unused. After a gap between blocks, all keys must be selected again.
func (k *Keys[T]) Next(height int64, requests func(name string) (times int, ok bool)) (read []Key[T], unused int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	gap := height != k.height+1
	k.height = height
	k.records.ChangeAll(func(name string, s *Streak[T]) *Streak[T] {
		switch {
		case s.blocks == 0:
			s.idleBlocks++
		case gap:
			s.blocks = 0
		default:
			if s.endBlock(requests(name)) {
				unused++
			}
		}
		s.wasRead = false
		if s.blocks >= s.needs {
			read = append(read, Key[T]{name, s.value})
		}
		if s.blocks > 0 {
			return s
		}
		s.value = *new(T) // Record brings another one, and the value may hold a long request
		if s.needs == minStreak || s.idleBlocks > forgetAfter || k.known > crowded {
			k.known--
			return nil
		}
		return s
	})
	rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] }) // replicas start with different keys
	return read, unused
}

// endBlock ends a block and reports whether the read for it was unused.
func (s *Streak[T]) endBlock(times int, known bool) (unused bool) {
	unused = known && s.wasRead && times == 0
	if unused {
		s.needs = min(2*s.needs, maxStreak)
	} else if s.wasRead {
		s.needs = max(s.needs-1, minStreak)
	}
	if s.blocks++; !known || times < Often {
		s.blocks = 0
	}
	return unused
}

// Finish records the result of reading a key for the newest block. A key whose read failed is deselected.
func (k *Keys[T]) Finish(name string, result Result) {
	k.records.Change(name, func(s *Streak[T]) *Streak[T] {
		switch {
		case s == nil:
		case result == Origin:
			s.wasRead = true
		case result == Failed:
			s.blocks, s.needs = 0, min(2*s.needs, maxStreak)
		}
		return s
	})
}

// WillRead reports whether a key will be read at the next block if it has Often requests in this one. s may be nil.
func (s *Streak[T]) WillRead() bool {
	return s != nil && s.blocks > 0 && s.blocks+1 >= s.needs
}

// Forget deselects all keys.
func (k *Keys[T]) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records.ChangeAll(func(_ string, s *Streak[T]) *Streak[T] {
		s.value = *new(T)
		if s.blocks, s.wasRead = 0, false; s.needs == minStreak {
			k.known--
			return nil
		}
		return s
	})
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
