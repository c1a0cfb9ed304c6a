// Package heap divides the memory of the process among cached answers, garbage between two collections, and the rest.
package heap

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Limit sets the collector's memory limit from the container's memory, so that it works harder before the kernel
// ends the process. GOMEMLIMIT takes precedence.
func Limit(log *slog.Logger, container memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(0.9), memlimit.WithProvider(container))
	if err != nil {
		log.Debug("no memory limit found", "error", err)
		return
	}
	log.Debug("memory limit", "bytes", limit)
}

// ForAnswers returns the default size of the cache: a quarter of the container's memory.
func ForAnswers(container memlimit.Provider) int64 {
	const usual = 256 << 20
	limit, err := container()
	if err != nil {
		return usual
	}
	return int64(limit / 4)
}
