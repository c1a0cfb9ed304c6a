package ahead_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/upstream/expect"
)

// play tells for each block whether a key is read ahead that was asked for so many
// times in each, and how many reads went unused.
func play(times ...int) (read []bool, unused int) {
	var keys ahead.Keys[string]
	keys.Next(99, nil)
	for i, n := range times {
		now, wasted := keys.Next(100+int64(i), func(string) (int, bool) { return before(times, i), true })
		unused += wasted
		read = append(read, len(now) == 1)
		if len(now) == 1 {
			keys.Read("k")
		} else if before(times, i) >= 2 && n > 0 {
			keys.Record("k", "how") // as the caller does who has it read
		}
	}
	return read, unused
}

func before(times []int, i int) int {
	if i == 0 {
		return 0
	}
	return times[i-1]
}

func TestFrequentKeysAreReadAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		times  []int
		read   []int // blocks, from 0 on
		unused int
	}{
		"asked for often in each block":             {[]int{5, 5, 5, 5, 5}, []int{2, 3, 4}, 0},
		"asked for twice in each block":             {[]int{2, 2, 2, 2}, []int{2, 3}, 0},
		"asked for once in each block":              {[]int{1, 1, 1, 1, 1, 1}, nil, 0},
		"asked for in every other block":            {[]int{9, 0, 9, 0, 9, 0, 9}, nil, 0},
		"asked for every 2.5 blocks":                {[]int{1, 0, 0, 1, 0, 1, 0, 0, 1}, nil, 0},
		"once in a block between":                   {[]int{5, 5, 1, 5, 5, 5}, []int{2, 5}, 0},
		"no more":                                   {[]int{5, 5, 0, 0, 0, 0}, []int{2}, 1},
		"again after a read that went unused":       {[]int{5, 5, 0, 5, 5, 5, 5, 5, 5}, []int{2, 7, 8}, 1},
		"again long after an unused read":           {slices.Concat([]int{5, 5}, make([]int, 4_101), []int{5, 5, 5}), []int{2, 4_105}, 1},
		"by turns, which is wasted less and less":   {slices.Repeat([]int{5, 5, 0}, 20), []int{2}, 1},
		"by longer turns, wasted less and less too": {slices.Repeat([]int{5, 5, 5, 5, 0}, 20), []int{2, 3, 4, 9}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, unused := play(tt.times...)
			want := make([]bool, len(tt.times))
			for _, block := range tt.read {
				want[block] = true
			}
			if diff := cmp.Diff(want, got); diff != "" || unused != tt.unused {
				t.Errorf("%d reads unused, want %d (-want +got)\n%s", unused, tt.unused, diff)
			}
		})
	}
}

// hot is keys of which one is read ahead at block 102.
func hot(t *testing.T) *ahead.Keys[string] {
	t.Helper()
	var keys ahead.Keys[string]
	keys.Next(100, nil)
	keys.Record("k", "how")
	keys.Next(101, often)
	if now, _ := keys.Next(102, often); len(now) != 1 || now[0] != (ahead.Key[string]{Name: "k", Value: "how"}) {
		t.Fatalf("%v is read", now)
	}
	return &keys
}

func often(string) (int, bool) { return 2, true }

// selected returns keys that are all read ahead at block 102.
func selected(count int) *ahead.Keys[int] {
	keys := new(ahead.Keys[int])
	keys.Next(100, nil)
	for i := range count {
		keys.Record(fmt.Sprint(i), i)
	}
	keys.Next(101, often)
	return keys
}

func TestKeysToReadAheadAreForgotten(t *testing.T) {
	for name, next := range map[string]func(*ahead.Keys[string]) []ahead.Key[string]{
		"when blocks were left out": func(keys *ahead.Keys[string]) []ahead.Key[string] {
			now, _ := keys.Next(104, often)
			return now
		},
		"when the chain was set back": func(keys *ahead.Keys[string]) []ahead.Key[string] {
			now, _ := keys.Next(50, often)
			return now
		},
		"when nothing is known of the key any more": func(keys *ahead.Keys[string]) []ahead.Key[string] {
			now, _ := keys.Next(103, func(string) (int, bool) { return 0, false })
			return now
		},
		"when all is forgotten": func(keys *ahead.Keys[string]) []ahead.Key[string] {
			keys.Forget()
			now, _ := keys.Next(103, often)
			return now
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys := hot(t)
			if now := next(keys); len(now) != 0 || keys.Has("k") {
				t.Errorf("%v is read", now)
			}
		})
	}
}

func TestKeysToReadAheadAreBounded(t *testing.T) {
	var keys ahead.Keys[int]
	keys.Record("too early", 0)
	keys.Next(100, nil)
	for i := range 10_000 {
		keys.Record(fmt.Sprint(i), i)
	}
	keys.Next(101, often)
	if now, _ := keys.Next(102, often); len(now) != 8_000 {
		t.Errorf("%d keys are read, want 8000", len(now))
	}
}

// As much is read of what is wanted as the origin gives in the time.
func TestKeysAreReadAtTheSameTime(t *testing.T) {
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
			t.Errorf("%d keys were read", got)
		}
	})
}

func TestRoundReadsABoundedNumberAtOnceAndEndsWithAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := selected(1_000)
		var n ahead.Counts
		var reading, most, read atomic.Int64
		keys.Round(t.Context(), ahead.Block{Height: 102, Time: time.Second, Room: func() bool { return true }}, &n, often, func(int, time.Duration) ahead.Result {
			most.Store(max(most.Load(), reading.Add(1)))
			defer reading.Add(-1)
			time.Sleep(time.Millisecond)
			if read.Add(1) == 100 {
				return ahead.Failed
			}
			return ahead.Origin
		})
		expect.Equal(t, most.Load(), 16, "reads at once")
		// The 15 other reads end at the same time as the 100th, and each may be followed by one more before the round ends.
		if got := read.Load(); got < 100 || got > 100+2*15 {
			t.Errorf("reads = %d, want 100 to 130: the 100th failed and ends the round", got)
		}
		expect.Equal(t, n[ahead.Failed].Load(), 1, "failures counted")
		if keys.Has("0") {
			t.Error("Has = true after the origin failed, want false")
		}
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
			t.Errorf("read %v, counted %d; want %v", got, n[ahead.Origin].Load(), want)
		}
	}
}

func TestRoundCountsReadsThatNobodyRequested(t *testing.T) {
	var keys ahead.Keys[int]
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

// busyOrigin is an origin with a capacity. A reader may see room that another reader takes before it.
type busyOrigin struct{ capacity, reading, refused atomic.Int64 }

func (o *busyOrigin) room() bool { return o.reading.Load() < max(1, o.capacity.Load()) }

func (o *busyOrigin) read(int, time.Duration) ahead.Result {
	time.Sleep(time.Millisecond) // for the lease
	if o.reading.Add(1) > o.capacity.Load() {
		o.reading.Add(-1)
		o.refused.Add(1)
		return ahead.Busy
	}
	time.Sleep(10 * time.Millisecond)
	o.reading.Add(-1)
	return ahead.Origin
}

func TestRoundFollowsTheCapacityOfTheOrigin(t *testing.T) {
	for name, tt := range map[string]struct {
		capacity, origin, yielded, refused int
	}{
		"three reads at once":   {3, 60, 0, 10},
		"sixteen reads at once": {16, 60, 0, 0},
		"one read at once":      {1, 60, 0, 20},
		"no read":               {0, 0, 60, 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys := selected(60)
				var n ahead.Counts
				var o busyOrigin
				o.capacity.Store(int64(tt.capacity))
				keys.Round(t.Context(), ahead.Block{Height: 102, Time: 2 * time.Second, Room: o.room}, &n, often, o.read)
				if origin, yielded := n[ahead.Origin].Load(), n[ahead.Yielded].Load(); int(origin) != tt.origin || int(yielded) != tt.yielded {
					t.Errorf("%d keys read and %d yielded, want %d and %d", origin, yielded, tt.origin, tt.yielded)
				}
				if refused := o.refused.Load(); int(refused) > tt.refused {
					t.Errorf("%d reads found no capacity, want %d at most", refused, tt.refused)
				}
			})
		})
	}
}
