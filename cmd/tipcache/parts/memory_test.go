package parts

import (
	"io"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestMemoryFollowsContainerLimit(t *testing.T) {
	none := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	for _, tt := range []struct {
		name      string
		memory    config.Bytes
		container memlimit.Provider
		want      int64
	}{
		{"configured size", 64 << 20, memlimit.Limit(1 << 30), 64 << 20},
		{"a quarter of the container's memory", config.Auto, memlimit.Limit(1 << 30), 256 << 20},
		{"a quarter of a small container's memory", config.Auto, memlimit.Limit(128 << 20), 32 << 20},
		{"default without a container", config.Auto, none, 256 << 20},
	} {
		cfg := config.Config{Cache: config.Cache{Memory: tt.memory}}
		expect.Equal(t, cfg.CacheMemory(tt.container), tt.want, "%s", tt.name)
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	log := NewLogger(io.Discard, config.Log{Level: "error"})
	heap.Limit(log, memlimit.Limit(1000<<20))
	expect.Equal(t, debug.SetMemoryLimit(-1), 900<<20, "memory limit")
	heap.Limit(log, none)
	expect.Equal(t, debug.SetMemoryLimit(-1), math.MaxInt64, "memory limit without a container")
}
