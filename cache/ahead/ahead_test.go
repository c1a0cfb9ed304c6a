package ahead_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/upstream/expect"
)

// testKeys are keys whose streaks are in a map.
type testKeys[T any] struct {
	*ahead.Keys[T]

	mu      sync.Mutex
	streaks map[string]*ahead.Streak[T]
}

func newKeys[T any]() *testKeys[T] {
	k := &testKeys[T]{streaks: map[string]*ahead.Streak[T]{}}
	k.Keys = ahead.New(k)
	return k
}

func (k *testKeys[T]) Change(name string, do func(*ahead.Streak[T]) *ahead.Streak[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.streaks[name] = do(k.streaks[name]); k.streaks[name] == nil {
		delete(k.streaks, name)
	}
}

func (k *testKeys[T]) ChangeAll(do func(string, *ahead.Streak[T]) *ahead.Streak[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, s := range k.streaks {
		if k.streaks[name] = do(name, s); k.streaks[name] == nil {
			delete(k.streaks, name)
		}
	}
}

func (k *testKeys[T]) Has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.streaks[name].WillRead()
}

// readsAhead returns the blocks, counted from 0, for which a key is read ahead, and how many reads were unused. requests
// are the key's requests in each block.
func readsAhead(requests ...int) (read []int, unused int) {
	keys := newKeys[string]()
	keys.Next(99, nil)
	previous := 0
	for block, n := range requests {
		now, wasted := keys.Next(100+int64(block), func(string) (int, bool) { return previous, true })
		unused += wasted
		if len(now) == 1 {
			read = append(read, block)
			keys.Finish("k", ahead.Origin)
		} else if previous >= 2 && n > 0 {
			keys.Record("k", "value") // as the first caller of the block does
		}
		previous = n
	}
	return read, unused
}

func TestFrequentKeysAreReadAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		requests []int // in each block
		want     []int // blocks, counted from 0
		unused   int
	}{
		"often in each block":                     {[]int{5, 5, 5, 5, 5}, []int{2, 3, 4}, 0},
		"twice in each block":                     {[]int{2, 2, 2, 2}, []int{2, 3}, 0},
		"once in each block":                      {[]int{1, 1, 1, 1, 1, 1}, nil, 0},
		"in every other block":                    {[]int{9, 0, 9, 0, 9, 0, 9}, nil, 0},
		"every 2.5 blocks":                        {[]int{1, 0, 0, 1, 0, 1, 0, 0, 1}, nil, 0},
		"once in one block":                       {[]int{5, 5, 1, 5, 5, 5}, []int{2, 5}, 0},
		"not any more":                            {[]int{5, 5, 0, 0, 0, 0}, []int{2}, 1},
		"again after an unused read":              {[]int{5, 5, 0, 5, 5, 5, 5, 5, 5}, []int{2, 7, 8}, 1},
		"again long after an unused read":         {slices.Concat([]int{5, 5}, make([]int, 4_101), []int{5, 5, 5}), []int{2, 4_105}, 1},
		"in two of three blocks, again and again": {slices.Repeat([]int{5, 5, 0}, 20), []int{2}, 1},
		"in four of five blocks, again and again": {slices.Repeat([]int{5, 5, 5, 5, 0}, 20), []int{2, 3, 4, 9}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, unused := readsAhead(tt.requests...)
			expect.NoDiff(t, got, tt.want, "blocks")
			expect.Equal(t, unused, tt.unused, "unused reads")
		})
	}
}

func often(string) (int, bool) { return 2, true }

// selected returns keys that are all read ahead at block 102.
func selected(count int) *testKeys[int] {
	keys := newKeys[int]()
	keys.Next(100, nil)
	for i := range count {
		keys.Record(fmt.Sprint(i), i)
	}
	keys.Next(101, often)
	return keys
}

func TestKeysToReadAheadAreForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		height   int64
		requests func(string) (int, bool)
		forget   bool
	}{
		"after a gap between blocks":          {104, often, false},
		"after a rollback":                    {50, often, false},
		"when a key's requests are not known": {103, func(string) (int, bool) { return 0, false }, false},
		"by Forget":                           {103, often, true},
	} {
		t.Run(name, func(t *testing.T) {
			keys := selected(1)
			if now, _ := keys.Next(102, often); len(now) != 1 || now[0] != (ahead.Key[int]{Name: "0", Value: 0}) {
				t.Fatalf("keys read at block 102 = %v, want 0", now)
			}
			if tt.forget {
				keys.Forget()
			}
			if now, _ := keys.Next(tt.height, tt.requests); len(now) != 0 || keys.Has("0") {
				t.Errorf("keys read = %v, Has = %t; want none, false", now, keys.Has("0"))
			}
		})
	}
}

// A key whose read was unused needs a streak of four blocks.
func TestUnusedReadIsRememberedAfterBrokenStreak(t *testing.T) {
	const idle = 4_000 // blocks; a key is forgotten after 4,096
	for name, breakStreak := range map[string]func(keys *testKeys[int], height int64){
		"by a gap between blocks": func(keys *testKeys[int], height int64) { keys.Next(height+2, often) },
		"by Forget":               func(keys *testKeys[int], _ int64) { keys.Forget() },
	} {
		t.Run(name, func(t *testing.T) {
			keys := selected(1)
			keys.Next(102, often)
			keys.Finish("0", ahead.Origin)
			height := int64(103)
			next := func(blocks int) {
				for range blocks {
					keys.Next(height, func(string) (int, bool) { return 0, true })
					height++
				}
			}
			next(idle)
			keys.Record("0", 0)
			breakStreak(keys, height)
			height += 3
			next(idle)
			if keys.Record("0", 0); keys.Has("0") {
				t.Error("Has = true after one block, want false until the key is requested in three blocks")
			}
		})
	}
}

func TestKeysToReadAheadAreBounded(t *testing.T) {
	keys := newKeys[int]()
	keys.Record("too early", 0)
	keys.Next(100, nil)
	for i := range 10_000 {
		keys.Record(fmt.Sprint(i), i)
	}
	keys.Next(101, often)
	if now, _ := keys.Next(102, often); len(now) != 8_000 {
		t.Errorf("keys read = %d, want 8000", len(now))
	}
}

func TestIdleKeysMakeRoomForOthers(t *testing.T) {
	keys := selected(8_000)
	read, _ := keys.Next(102, often)
	for _, key := range read {
		keys.Finish(key.Name, ahead.Origin)
	}
	if _, unused := keys.Next(103, func(string) (int, bool) { return 0, true }); unused != 8_000 {
		t.Fatalf("unused reads = %d, want 8000", unused)
	}
	keys.Record("new", 0)
	keys.Next(104, often)
	if now, _ := keys.Next(105, often); len(now) != 1 || now[0].Name != "new" {
		t.Errorf("keys read = %v, want new", now)
	}
}

// An origin with 8 slots can serve 320 reads of 5 ms in 200 ms.
func TestRoundReadsKeysConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes, slots = 5 * time.Millisecond, 8
		keys := selected(1_000)
		var n ahead.Counts
		var reading, read atomic.Int64
		keys.Round(t.Context(), ahead.Block{
			Height: 102, Time: 200 * time.Millisecond, Room: func() bool { return reading.Load() < slots },
		}, &n, often, func(int, time.Duration) ahead.Result {
			if reading.Add(1) > slots {
				reading.Add(-1)
				return ahead.Yielded
			}
			time.Sleep(takes)
			reading.Add(-1)
			read.Add(1)
			return ahead.Origin
		})
		if got := read.Load(); got < 150 {
			t.Errorf("keys read = %d, want at least 150", got)
		}
	})
}

func TestRoundLimitsConcurrentReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := selected(1_000)
		var n ahead.Counts
		var reading, most atomic.Int64
		keys.Round(t.Context(), ahead.Block{Height: 102, Time: time.Second, Room: func() bool { return true }}, &n, often, func(int, time.Duration) ahead.Result {
			most.Store(max(most.Load(), reading.Add(1)))
			defer reading.Add(-1)
			time.Sleep(time.Millisecond)
			return ahead.Origin
		})
		expect.Equal(t, most.Load(), 16, "reads at once")
	})
}

func TestRoundEndsWhenOriginIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := selected(1_000)
		var n ahead.Counts
		keys.Round(t.Context(), ahead.Block{Height: 102, Time: time.Second, Room: func() bool { return true }}, &n, often, func(int, time.Duration) ahead.Result {
			time.Sleep(time.Millisecond)
			return ahead.Failed
		})
		// The 15 other reads end at the same time as the 16th, and each may be followed by one more before the round ends.
		if got := n[ahead.Failed].Load(); got < 16 || got > 16+15 {
			t.Errorf("failed reads = %d, want 16 to 31", got)
		}
		for i := range 1_000 {
			if name := strconv.Itoa(i); keys.Has(name) {
				t.Fatalf("Has(%q) = true after the origin failed, want false", name)
			}
		}
	})
}

func TestRoundEndsWhenOriginGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := selected(1_000)
		var n ahead.Counts
		var reads atomic.Int64
		keys.Round(t.Context(), ahead.Block{Height: 102, Time: time.Second, Room: func() bool { return true }}, &n, often, func(int, time.Duration) ahead.Result {
			time.Sleep(time.Millisecond)
			if reads.Add(1) <= 100 {
				return ahead.Origin
			}
			return ahead.Failed
		})
		// Up to 15 reads that succeeded may be counted after the first failures, and up to 15 reads may follow the last one.
		if got := n[ahead.Failed].Load(); got < 16 || got > 16+15+15 {
			t.Errorf("failed reads = %d, want 16 to 46", got)
		}
	})
}

func TestReadsOfAnotherReplicaShowThatOriginWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := selected(1_000)
		var n ahead.Counts
		keys.Round(t.Context(), ahead.Block{Height: 102, Time: time.Second, Room: func() bool { return true }}, &n, often, func(v int, _ time.Duration) ahead.Result {
			time.Sleep(time.Millisecond)
			if v < 100 {
				return ahead.Failed
			}
			return ahead.Shared
		})
		expect.Equal(t, n[ahead.Shared].Load(), 900, "keys that another replica has read")
		expect.Equal(t, n[ahead.Failed].Load(), 100, "keys that fail")
	})
}

func TestKeysThatFailAreReadAheadMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := selected(100)
		var n ahead.Counts
		read := func(v int, _ time.Duration) ahead.Result {
			time.Sleep(time.Millisecond)
			if v < 20 {
				return ahead.Failed
			}
			return ahead.Origin
		}
		for height := int64(102); height < 110; height++ {
			keys.Round(t.Context(), ahead.Block{Height: height, Time: time.Second, Room: func() bool { return true }}, &n, often, read)
			for i := range 20 { // clients still request them
				keys.Record(strconv.Itoa(i), i)
			}
		}
		expect.Equal(t, n[ahead.Origin].Load(), 8*80, "reads of the 80 other keys in eight blocks")
		expect.Equal(t, n[ahead.Failed].Load(), 2*20, "reads of the 20 keys that fail: in the first block and after four more")
	})
}

func TestRoundReadsEveryKeyOnce(t *testing.T) {
	for _, count := range []int{1, 3, 40} {
		keys := selected(count)
		var want []int
		for i := range count {
			want = append(want, i)
		}
		var n ahead.Counts
		var mu sync.Mutex
		var got []int
		keys.Round(t.Context(), ahead.Block{Height: 102, Time: time.Minute, Room: func() bool { return true }}, &n, often, func(v int, _ time.Duration) ahead.Result {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, v)
			return ahead.Origin
		})
		slices.Sort(got)
		if !slices.Equal(got, want) || n[ahead.Origin].Load() != uint64(count) {
			t.Errorf("keys read = %v, counted %d; want %v", got, n[ahead.Origin].Load(), want)
		}
	}
}

func TestRoundCountsReadsThatNobodyRequested(t *testing.T) {
	keys := newKeys[int]()
	keys.Next(100, nil)
	keys.Record("wanted", 1)
	keys.Record("unwanted", 2)
	keys.Next(101, often)
	var n ahead.Counts
	requests := often
	for height := int64(102); height < 104; height++ {
		keys.Round(t.Context(), ahead.Block{Height: height, Time: time.Minute, Room: func() bool { return true }}, &n, requests,
			func(int, time.Duration) ahead.Result { return ahead.Origin })
		requests = func(name string) (int, bool) { return map[string]int{"wanted": ahead.Often}[name], true }
	}
	got := map[string]uint64{}
	for result := range n {
		if times := n[result].Load(); times > 0 {
			got[ahead.Result(result).String()] = times
		}
	}
	expect.NoDiff(t, got, map[string]uint64{"origin": 3, "unused": 1}, "counted reads of two keys in two blocks, one of which nobody requested in the first")
}

// busyOrigin is an origin with a capacity. Another reader may use the capacity that a reader has seen.
type busyOrigin struct{ capacity, reading, refused atomic.Int64 }

func (o *busyOrigin) room() bool { return o.reading.Load() < max(1, o.capacity.Load()) }

func (o *busyOrigin) read(int, time.Duration) ahead.Result {
	time.Sleep(time.Millisecond) // to acquire the lease
	if o.reading.Add(1) > o.capacity.Load() {
		o.reading.Add(-1)
		o.refused.Add(1)
		return ahead.Busy
	}
	time.Sleep(10 * time.Millisecond)
	o.reading.Add(-1)
	return ahead.Origin
}

func TestRoundKeepsToCapacityOfOrigin(t *testing.T) {
	for _, tt := range []struct {
		capacity, origin, yielded, maxRefused int
	}{
		{3, 60, 0, 20},
		{16, 60, 0, 0},
		{1, 60, 0, 40},
		{0, 0, 60, 80},
	} {
		t.Run(fmt.Sprint(tt.capacity, " concurrent reads"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys := selected(60)
				var n ahead.Counts
				var o busyOrigin
				o.capacity.Store(int64(tt.capacity))
				keys.Round(t.Context(), ahead.Block{Height: 102, Time: 2 * time.Second, Room: o.room}, &n, often, o.read)
				if origin, yielded := n[ahead.Origin].Load(), n[ahead.Yielded].Load(); int(origin) != tt.origin || int(yielded) != tt.yielded {
					t.Errorf("keys read = %d, yielded = %d; want %d and %d", origin, yielded, tt.origin, tt.yielded)
				}
				if refused := o.refused.Load(); int(refused) > tt.maxRefused {
					t.Errorf("reads without capacity = %d, want at most %d", refused, tt.maxRefused)
				}
			})
		})
	}
}

func TestValueOfIdleKeyIsReleased(t *testing.T) {
	for name, end := range map[string]func(*testKeys[*[1 << 10]byte]){
		"after an unused read": func(k *testKeys[*[1 << 10]byte]) { k.Next(103, func(string) (int, bool) { return 0, true }) },
		"after Forget":         func(k *testKeys[*[1 << 10]byte]) { k.Forget() },
	} {
		t.Run(name, func(t *testing.T) {
			keys := newKeys[*[1 << 10]byte]()
			keys.Next(100, nil)
			value := new([1 << 10]byte)
			pointer := weak.Make(value)
			keys.Record("k", value)
			often := func(string) (int, bool) { return ahead.Often, true }
			keys.Next(101, often)
			keys.Finish("k", ahead.Origin)
			keys.Next(102, func(string) (int, bool) { return 0, true }) // the key remains, and needs a longer streak
			keys.Record("k", value)
			end(keys)
			runtime.GC()
			if pointer.Value() != nil {
				t.Error("value of an idle key is still in memory, want it released")
			}
			runtime.KeepAlive(&keys)
		})
	}
}
