package heap

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestGarbageIsASmallShareOfAContainer(t *testing.T) {
	none := func() (uint64, error) { return 0, errors.New("no container") }
	for name, tt := range map[string]struct {
		container memlimit.Provider
		want      uint64
	}{
		"no container":    {none, 48 << 20},
		"a large one":     {memlimit.Limit(8 << 30), 48 << 20},
		"a small sidecar": {memlimit.Limit(128 << 20), 8 << 20},
	} {
		if got := GarbageFor(tt.container); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", name, got, tt.want)
		}
	}
}

func TestThePercentageMakesTheGarbage(t *testing.T) {
	for live, want := range map[uint64]int{0: 1600, 1 << 20: 1600, 8 << 20: 800, 32 << 20: 200, 64 << 20: 100, 128 << 20: 50, 1 << 30: 40} {
		if got := percentFor(64<<20, live); got != want {
			t.Errorf("%d bytes live: %d %%, want %d", live, got, want)
		}
	}
}

func TestTheTuningFollowsWhatIsAlive(t *testing.T) {
	t.Setenv("GOGC", "") // or nothing is changed
	before := debug.SetGCPercent(usualPercent)
	defer debug.SetGCPercent(before)
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
	held := make([]byte, 200<<20)
	for deadline := time.Now().Add(time.Minute); percent() >= usualPercent; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d %% with much alive", percent())
		}
		time.Sleep(time.Millisecond) // cleanups run on their own
	}
	runtime.KeepAlive(held)
}
