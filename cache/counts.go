package cache

import (
	"sync/atomic"
	"time"

	otterstats "github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/codings"
)

// counts are the running numbers. It records the evictions of the memory store.
type counts struct {
	otterstats.NoopRecorder

	requests [StaleError + 1][3]atomic.Uint64 // by outcome and store
	variants [codings.Count]atomic.Uint64
	ahead    ahead.Counts

	collapsed, flights, skipped, originCalls, originErrors, evictions, renewals, warmed atomic.Uint64

	writing      atomic.Int64             // leases on their way back to the shared store
	leaseWaiting atomic.Int64             // flights that wait for another replica's lease
	leaseSeconds *prometheus.HistogramVec // by how the wait ended
}

func (n *counts) served(o Outcome, store string) { n.requests[o][storeIndex(store)].Add(1) }

func storeIndex(store string) int {
	switch store {
	case inMemory:
		return 1
	case inShared:
		return 2
	default:
		return 0
	}
}

func (n *counts) leaseWaited(end string, began time.Time) {
	n.leaseSeconds.WithLabelValues(end).Observe(time.Since(began).Seconds())
}

// RecordEviction counts an entry that memory gave up for want of room.
func (n *counts) RecordEviction(uint32) { n.evictions.Add(1) }
