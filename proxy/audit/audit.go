// Package audit reads entries that the cache received from nodes or the shared store a second time, at their height and,
// if possible, from another node.
//
// The way of an entry:
//
//  1. Enqueue selects a share of the entries without blocking.
//  2. A worker reads each again (check.go), using spare capacity of the nodes.
//  3. A difference counts only after both sides were read once more. It is logged, counted, and reported as a finding about
//     the node or shared store that supplied the entry (report.go). If nodes may compute the value outside the state, the
//     log line contains the row of chain.rows that passes it through.
package audit

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
)

// Options configure an Auditor. Row, Varies and Epoch are required.
type Options struct {
	Share   float64       // share of entries to read again, 0 to 1
	Timeout time.Duration // of one read; default 5 s

	Row    func(key string) string // returns the row of chain.rows for values computed outside the state; "" for none
	Varies func(key string) bool   // reports that nodes answer each call differently, so that entries are not read again

	Epoch func() int64 // returns the chain generation: entries of earlier ones are not judged

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil disables metrics
}

const (
	maxConcurrent = 2                // concurrent reads
	maxQueued     = 4096             // maximum queued entries; more are skipped
	maxBytes      = 8 << 20          // maximum bytes of their bodies, which memory may have dropped
	patience      = 10 * time.Second // maximum wait of an entry for spare capacity
)

// Auditor reads entries again. It is safe for concurrent use. Its goroutines end with Run.
type Auditor struct {
	o       Options
	tasks   chan task
	bytes   atomic.Int64           // of the bodies of tasks
	results *prometheus.CounterVec // result
	differs *prometheus.CounterVec // source

	mu       sync.Mutex
	findings map[string]Finding // by source
}

// task is an entry to read again.
type task struct {
	cache.NewEntry
	epoch int64
	since time.Time
}

// New returns an Auditor.
func New(o Options) *Auditor {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	a := &Auditor{o: o, tasks: make(chan task, maxQueued), findings: map[string]Finding{}}
	a.register()
	return a
}

// Enqueue queues a share of the entries that have a height and are no failures. It never blocks. Use it as OnNewEntry of
// [cache.Options].
func (a *Auditor) Enqueue(n cache.NewEntry) {
	e := n.Entry
	if e.Height == 0 || e.Status >= http.StatusInternalServerError || a.o.Share < 1 && rand.Float64() >= a.o.Share || a.o.Varies(n.Key) {
		return
	}
	size := int64(len(e.Body))
	if a.bytes.Add(size) <= maxBytes {
		select {
		case a.tasks <- task{n, a.o.Epoch(), time.Now()}:
			return
		default:
		}
	}
	a.bytes.Add(-size)
	a.count(skipped)
}

// Run reads entries again until ctx ends, and waits for the reads in progress.
func (a *Auditor) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range maxConcurrent {
		workers.Go(func() {
			for {
				select {
				case t := <-a.tasks:
					a.check(ctx, t)
					a.bytes.Add(-int64(len(t.Entry.Body)))
				case <-ctx.Done():
					return
				}
			}
		})
	}
	workers.Wait()
}
