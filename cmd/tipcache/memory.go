package main

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tipcache/tipcache/config"
)

// limitMemory lets the collector know of the container's memory, so that it
// works harder near its end, which the kernel would make the process's. What
// GOMEMLIMIT says goes before it.
func limitMemory(log *slog.Logger, container memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(0.9), memlimit.WithProvider(container))
	if err != nil {
		log.Debug("no memory limit found", "err", err)
		return
	}
	log.Debug("memory limit", "bytes", limit)
}

// cacheMemory is how many bytes of answers are kept. Where it is not said, it is
// a quarter of the container's memory: the rest is for answers on their way, and
// for the garbage the collector lets pile up.
func cacheMemory(said config.Bytes, container memlimit.Provider) int64 {
	if said != config.Auto {
		return int64(said)
	}
	const usual = 256 << 20
	limit, err := container()
	if err != nil {
		return usual
	}
	return int64(limit / 4)
}
