// Package heap divides the memory of a process that is a cache: the container's
// limit, the share of it for answers, and the garbage between two collections.
package heap

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Limit lets the collector know of the container's memory, so that it works
// harder near its end, which the kernel would make the process's. What
// GOMEMLIMIT says goes before it.
func Limit(log *slog.Logger, container memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(0.9), memlimit.WithProvider(container))
	if err != nil {
		log.Debug("no memory limit found", "error", err)
		return
	}
	log.Debug("memory limit", "bytes", limit)
}

// ForAnswers is how many bytes of answers are kept where no number is configured:
// a quarter of the container's memory. The rest is for answers on their way, and
// for the garbage the collector lets pile up.
func ForAnswers(container memlimit.Provider) int64 {
	const usual = 256 << 20
	limit, err := container()
	if err != nil {
		return usual
	}
	return int64(limit / 4)
}
