package heap

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestGarbageIsBounded(t *testing.T) {
	none := func() (uint64, error) { return 0, errors.New("no container") }
	for name, tt := range map[string]struct {
		container memlimit.Provider
		answers   int64
		want      uint64
	}{
		"no container":        {none, 256 << 20, 48 << 20},
		"a large one":         {memlimit.Limit(8 << 30), 2 << 30, 48 << 20},
		"a small sidecar":     {memlimit.Limit(128 << 20), 32 << 20, 8 << 20},
		"a small cache":       {none, 64 << 20, 32 << 20},
		"hardly any cache":    {none, 1 << 20, 16 << 20},
		"both, the container": {memlimit.Limit(128 << 20), 1 << 20, 8 << 20},
	} {
		expect.Equal(t, GarbageFor(tt.container, tt.answers), tt.want, "%s: bytes", name)
	}
}

func TestGCPercentBoundsGarbage(t *testing.T) {
	for live, want := range map[uint64]int{0: 1600, 1 << 20: 1600, 8 << 20: 800, 32 << 20: 200, 64 << 20: 100, 128 << 20: 50, 1 << 30: 40} {
		if got := percentFor(64<<20, live, 0); got != want {
			t.Errorf("%d bytes live: %d %%, want %d", live, got, want)
		}
	}
	if got := percentFor(64<<20, 32<<20, 32<<20); got != 100 {
		t.Errorf("with as many bytes of stacks, of which the collector allows the percentage, too: %d %%, want 100", got)
	}
}

func TestMemoryLimitIncludesGarbage(t *testing.T) {
	for live, want := range map[uint64]int64{10 << 20: (55 + 5) << 20, 1000 << 20: (1540 + 5) << 20} {
		if got := limitFor(40<<20, live, 5<<20); got != want {
			t.Errorf("%d bytes live: limit = %d, want %d", live, got, want)
		}
	}
	measured := map[int]uint64{allMemory: 99_999, released: 1, heapObjects: 20, heapUnused: 300, heapFree: 4_000}
	if got := memoryOutsideHeap(func(measure int) uint64 { return measured[measure] }); got != 95_678 {
		t.Errorf("memory outside the heap = %d, want 95678", got)
	}
}

func TestGCSettingsChangeByMoreThanATwentieth(t *testing.T) {
	for setting, want := range map[int64]bool{0: true, 94: true, 95: false, 100: false, 105: false, 106: true} {
		expect.Equal(t, differs(setting, 100), want, "differs(%d, 100)", setting)
	}
}

func TestGCTuningFollowsLiveHeap(t *testing.T) {
	t.Setenv("GOGC", "") // or nothing is changed
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
	if few := percent(); few <= usualPercent {
		t.Fatalf("%d %% with little alive", few)
	}
	if limit := debug.SetMemoryLimit(-1); limit > 200<<20 {
		t.Errorf("a limit of %d bytes with little alive", limit)
	}
	for _, step := range []struct {
		live  int
		tuned func(percent int, limit int64) bool
	}{
		{62 << 20, func(percent int, _ int64) bool { return max(percent-usualPercent, usualPercent-percent) < 10 }}, // near the default
		{200 << 20, func(percent int, limit int64) bool { return percent < usualPercent && limit >= 280<<20 }},
	} {
		held := make([]byte, step.live)
		for deadline := time.Now().Add(time.Minute); !step.tuned(percent(), debug.SetMemoryLimit(-1)); runtime.GC() {
			if time.Now().After(deadline) {
				t.Fatalf("%d bytes live: percentage = %d, limit = %d", step.live, percent(), debug.SetMemoryLimit(-1))
			}
			time.Sleep(time.Millisecond) // cleanups run on their own
		}
		runtime.KeepAlive(held)
	}
}
