package cache

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options of a cache. The zero value of each field means its default. The times
// nest: those of the shared store, OriginTimeout and Patience < FlightTimeout.
type Options struct {
	MemoryBytes   int64                 // bound of the memory store; 256 MiB
	Shared        Shared                // the store that replicas share, nil = none. The caller closes it, after the cache
	FlightTimeout time.Duration         // longest life of a flight: other replicas, the origin's queue and the origin together; 10 s
	OriginTimeout time.Duration         // what a flight leaves of that for the origin when it waits for other replicas; half of FlightTimeout
	Patience      time.Duration         // longest wait for the origin where a stale entry could be given; as [Patience] says. Where one kept for errors could it is 1 s
	MaxWaiters    int                   // callers waiting in flights at once, more are refused; 10000
	HotInterval   time.Duration         // how often replicas are told of the keys used most, for replicas that start; 30 s
	MaxBackground int                   // flights in the background at once, more are skipped; 4096
	Taken         func(Taken)           // is told of each entry that is new to this replica, for a query with Audit, and must not wait; nil = no function is
	EncodeAtOnce  bool                  // have callers wait for the codings that are made in the background otherwise
	Now           func() time.Time      // the clock that entries are judged by: theirs, which replicas and nodes have in common. Waits are measured by the process's own, as timers are; time.Now
	Logger        *slog.Logger          // nil = discard
	Registerer    prometheus.Registerer // nil = no metrics
}

func (o Options) validate() error {
	least := min(o.MemoryBytes, int64(o.FlightTimeout), int64(o.OriginTimeout), int64(o.Patience), int64(o.HotInterval), int64(o.MaxWaiters), int64(o.MaxBackground))
	if least < 0 {
		return fmt.Errorf("cache: an option is negative: %d", least)
	}
	if o = o.WithDefaults(); o.OriginTimeout >= o.FlightTimeout {
		return fmt.Errorf("cache: OriginTimeout %v is not shorter than FlightTimeout %v", o.OriginTimeout, o.FlightTimeout)
	}
	return nil
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.MemoryBytes = cmp.Or(o.MemoryBytes, 256<<20)
	o.FlightTimeout = cmp.Or(o.FlightTimeout, 10*time.Second)
	o.OriginTimeout = cmp.Or(o.OriginTimeout, o.FlightTimeout/2)
	o.HotInterval = cmp.Or(o.HotInterval, 30*time.Second)
	o.MaxWaiters = cmp.Or(o.MaxWaiters, 10_000)
	o.MaxBackground = cmp.Or(o.MaxBackground, 4096)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
