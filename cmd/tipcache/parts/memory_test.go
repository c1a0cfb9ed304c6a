package parts

import (
	"io"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/config"
)

func TestMemoryFollowsContainerLimit(t *testing.T) {
	none := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	for _, tt := range []struct {
		name      string
		said      config.Bytes
		container memlimit.Provider
		want      int64
	}{
		{"what is said is taken", 64 << 20, memlimit.Limit(1 << 30), 64 << 20},
		{"else a quarter of the container's", config.Auto, memlimit.Limit(1 << 30), 256 << 20},
		{"of a small one, too", config.Auto, memlimit.Limit(128 << 20), 32 << 20},
		{"without a limit the usual", config.Auto, none, 256 << 20},
	} {
		cfg := config.Config{Cache: config.Cache{Memory: tt.said}}
		if got := cfg.CacheMemory(tt.container); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	log := NewLogger(io.Discard, config.Log{Level: "error"})
	heap.Limit(log, memlimit.Limit(1000<<20))
	if got := debug.SetMemoryLimit(-1); got != 900<<20 {
		t.Errorf("the collector's limit is %d", got)
	}
	heap.Limit(log, none)
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("without one it is %d", got)
	}
}
