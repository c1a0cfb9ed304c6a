package heap

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestGarbageIsBounded(t *testing.T) {
	none := func() (uint64, error) { return 0, errors.New("no container") }
	for name, tt := range map[string]struct {
		container memlimit.Provider
		cache     int64
		want      uint64
	}{
		"no container":                         {none, 256 << 20, 48 << 20},
		"a large container":                    {memlimit.Limit(8 << 30), 2 << 30, 48 << 20},
		"a small container":                    {memlimit.Limit(128 << 20), 32 << 20, 8 << 20},
		"a small cache":                        {none, 64 << 20, 32 << 20},
		"a minimal cache":                      {none, 1 << 20, 16 << 20},
		"a small container, and minimal cache": {memlimit.Limit(128 << 20), 1 << 20, 8 << 20},
	} {
		expect.Equal(t, GarbageFor(tt.container, tt.cache), tt.want, "GarbageFor of %s", name)
	}
}

func TestGCPercentBoundsGarbage(t *testing.T) {
	for live, want := range map[uint64]int{0: 1600, 1 << 20: 1600, 8 << 20: 800, 32 << 20: 200, 64 << 20: 100, 128 << 20: 50, 1 << 30: 40} {
		expect.Equal(t, percentFor(64<<20, live, 0), want, "percentage with %d live bytes", live)
	}
	// The collector applies the percentage to stacks, too.
	expect.Equal(t, percentFor(64<<20, 32<<20, 32<<20), 100, "percentage with 32 MiB of live bytes and of stacks")
}

func TestMemoryLimitIncludesGarbage(t *testing.T) {
	for live, want := range map[uint64]int64{10 << 20: (55 + 5) << 20, 1000 << 20: (1540 + 5) << 20} {
		expect.Equal(t, limitFor(40<<20, live, 5<<20), want, "limit with %d live bytes", live)
	}
	measured := map[int]uint64{allMemory: 99_999, released: 1, heapObjects: 20, heapUnused: 300, heapFree: 4_000}
	expect.Equal(t, memoryOutsideHeap(func(measure int) uint64 { return measured[measure] }), 95_678, "memory outside the heap")
}

func TestGCSettingsChangeByMoreThanATwentieth(t *testing.T) {
	for setting, want := range map[int64]bool{0: true, 94: true, 95: false, 100: false, 105: false, 106: true} {
		expect.Equal(t, differs(setting, 100), want, "differs(%d, 100)", setting)
	}
}

func TestGCTuningFollowsLiveHeap(t *testing.T) {
	t.Setenv("GOGC", "") // otherwise TuneGC changes nothing
	before, most := debug.SetGCPercent(usualPercent), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(most)
	}()
	percent := func() int {
		now := debug.SetGCPercent(usualPercent)
		debug.SetGCPercent(now)
		return now
	}
	runtime.GC() // other tests leave garbage
	TuneGC(64 << 20)
	if got := percent(); got <= usualPercent {
		t.Fatalf("percentage with few live bytes = %d, want more than %d", got, usualPercent)
	}
	if limit := debug.SetMemoryLimit(-1); limit > 200<<20 {
		t.Errorf("limit with few live bytes = %d, want at most %d", limit, 200<<20)
	}
	for _, step := range []struct {
		live  int
		tuned func(percent int, limit int64) bool
	}{
		{62 << 20, func(percent int, _ int64) bool { return max(percent-usualPercent, usualPercent-percent) < 10 }}, // near the default
		{200 << 20, func(percent int, limit int64) bool { return percent < usualPercent && limit >= 280<<20 }},
	} {
		held := make([]byte, step.live)
		expect.Eventually(t, fmt.Sprintf("percentage and limit fit %d live bytes", step.live), func() bool {
			runtime.GC() // the tuning runs in a cleanup after it
			return step.tuned(percent(), debug.SetMemoryLimit(-1))
		})
		runtime.KeepAlive(held)
	}
}
