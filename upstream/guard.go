package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrPanicked is the error of an input that was dropped because handling it panicked.
var ErrPanicked = errors.New("panicked")

// Panics counts the inputs that Guard dropped in this process. Every registry must register it.
var Panics = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "tipcache_panics_total",
	Help: "Inputs dropped because handling them panicked.",
})

// Guard calls work, which handles one input from outside: a message, a key or a block. If work panics, Guard logs and
// counts it and returns ErrPanicked. Goroutines that handle such input must use it, as a panic would end the process.
func Guard(log *slog.Logger, task string, work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			Panics.Inc()
			recordPanic()
			log.Error("dropped an input whose handling panicked", "task", task, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%s %w: %v", task, ErrPanicked, p)
		}
	}()
	return work()
}

// GuardInput is Guard for work that returns no error.
func GuardInput(log *slog.Logger, task string, work func()) {
	_ = Guard(log, task, func() error {
		work()
		return nil
	})
}

const manyPanics = 3

// recent holds the times of the latest panics, the oldest first.
var recent struct {
	sync.Mutex
	at [manyPanics]time.Time
}

func recordPanic() {
	recent.Lock()
	defer recent.Unlock()
	copy(recent.at[:], recent.at[1:])
	recent.at[manyPanics-1] = time.Now()
}

// Panicking reports whether Guard has dropped three inputs or more within the last minute.
func Panicking() bool {
	recent.Lock()
	defer recent.Unlock()
	return time.Since(recent.at[0]) < time.Minute
}
