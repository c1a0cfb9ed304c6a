package cache

import (
	"sync/atomic"
	"time"

	otterstats "github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"
)

// Stats is what a cache has done so far and holds now. Every finished Get is
// counted under one outcome, and
//
//	Gets = Hits + StaleHits + Misses + StaleErrors + Failures
type Stats struct {
	Gets, Hits, StaleHits, Misses, StaleErrors, Failures uint64

	SharedHits   uint64 // hits and stale hits on entries of the shared store
	Collapsed    uint64 // misses answered by another caller's flight
	Flights      uint64 // flights begun, those in the background among them
	Skipped      uint64 // flights in the background not begun, too many being under way
	OriginCalls  uint64
	OriginErrors uint64
	LeaseWaits   uint64 // waits for another replica
	SharedErrors uint64
	Evictions    uint64 // from memory
	Encodings    uint64 // bodies encoded

	Waiting       int64 // callers waiting in flights now
	Background    int64 // flights in the background now
	MemoryEntries int
	MemoryBytes   uint64
}

// Stats gives the numbers so far. They are read one by one while the cache runs
// on, so identities hold exactly only when it rests.
func (c *Cache) Stats() Stats {
	n, memory := &c.counts, c.chain.Load().memory
	s := Stats{
		Hits: n.outcome(Hit), StaleHits: n.outcome(StaleHit), Misses: n.outcome(Miss),
		StaleErrors: n.outcome(StaleError), Failures: n.outcome(0),
		SharedHits: n.requests[Hit][storeIndex(inShared)].Load() + n.requests[StaleHit][storeIndex(inShared)].Load(),
		Collapsed:  n.collapsed.Load(), Flights: n.flights.Load(), Skipped: n.skipped.Load(),
		OriginCalls: n.originCalls.Load(), OriginErrors: n.originErrors.Load(),
		LeaseWaits: n.leaseWaits.Load(), Evictions: n.evictions.Load(),
		Waiting: c.waiting.Load(), Background: c.background.Load(),
		MemoryEntries: memory.entries(), MemoryBytes: memory.bytes(),
	}
	for i := range n.variants {
		s.Encodings += n.variants[i].Load()
	}
	s.Gets = s.Hits + s.StaleHits + s.Misses + s.StaleErrors + s.Failures
	for i := range n.troubles {
		s.SharedErrors += n.troubles[i].Load()
	}
	return s
}

// counts are the running numbers. It records the evictions of the memory store.
type counts struct {
	otterstats.NoopRecorder

	requests [StaleError + 1][3]atomic.Uint64 // by outcome and store
	troubles [troubles]atomic.Uint64
	variants [codings]atomic.Uint64

	collapsed, flights, skipped, originCalls, originErrors, leaseWaits, evictions atomic.Uint64

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

func (n *counts) outcome(o Outcome) (sum uint64) {
	for i := range n.requests[o] {
		sum += n.requests[o][i].Load()
	}
	return sum
}

func (n *counts) trouble(t trouble) { n.troubles[t].Add(1) }

func (n *counts) leaseWaited(end string, began time.Time) {
	n.leaseSeconds.WithLabelValues(end).Observe(time.Since(began).Seconds())
}

// RecordEviction counts an entry that memory gave up for want of room.
func (n *counts) RecordEviction(uint32) { n.evictions.Add(1) }
