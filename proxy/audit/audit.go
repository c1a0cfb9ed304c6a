// Package audit reads again what the cache has taken from nodes or from the shared
// store, at the height that it is said to be of, from another node where there is one.
//
// An entry goes, top to bottom:
//
//  1. Note takes a share of the entries, as they come, and lets none wait;
//  2. a worker reads each again (check.go), with what the nodes can spare;
//  3. a difference counts once both sides were read a second time: it is a line in the
//     log, a metric, and a state of the node, or of the shared store, that the entry
//     came from (report.go). Where the value may be one that nodes compute outside the state,
//     the line names the row of chain.rows that passes it through.
package audit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
)

// Options of an Auditor.
type Options struct {
	Share   float64       // of the entries, 0 to 1
	Timeout time.Duration // of one reading; 0 is 5 s

	Row    func(key string) string // returns the line of chain.rows for values that are not the state's; "" for none. Nil: there is none
	Varies func(key string) bool   // reports that nodes answer differently from call to call, so that entries are not read again. Nil: none do

	Epoch func() int64 // tells the chain's: entries of one before are not judged. Nil: there is one

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil counts nothing
}

const (
	atOnce   = 2                // entries that are read again at a time
	waiting  = 4096             // entries that wait for that; more are skipped
	patience = 10 * time.Second // how long an entry waits for a node with something to spare
)

// An Auditor is safe for concurrent use. Its goroutines are those of Run.
type Auditor struct {
	o       Options
	tasks   chan task
	results *prometheus.CounterVec // result
	differs *prometheus.CounterVec // source

	mu       sync.Mutex
	findings map[string]Finding // by source
}

// A task is an entry to be read again.
type task struct {
	cache.Taken
	epoch int64
	since time.Time
}

// New checks the options.
func New(o Options) (*Auditor, error) {
	if o.Share < 0 || o.Share > 1 || o.Timeout < 0 {
		return nil, errors.New("audit: the share must be from 0 to 1, the timeout positive")
	}
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Row == nil {
		o.Row = func(string) string { return "" }
	}
	if o.Varies == nil {
		o.Varies = func(string) bool { return false }
	}
	if o.Epoch == nil {
		o.Epoch = func() int64 { return 0 }
	}
	a := &Auditor{o: o, tasks: make(chan task, waiting), findings: map[string]Finding{}}
	return a, a.register()
}

// Note takes its share of the entries that tell a height and are an answer.
// It never waits. It is to be the Taken of [cache.Options].
func (a *Auditor) Note(taken cache.Taken) {
	e := taken.Entry
	if e.Height == 0 || e.Status >= http.StatusInternalServerError || a.o.Share < 1 && rand.Float64() >= a.o.Share || a.o.Varies(taken.Key) {
		return
	}
	select {
	case a.tasks <- task{taken, a.o.Epoch(), time.Now()}:
	default:
		a.count(skipped)
	}
}

// Run reads entries again until ctx ends, and waits for what it has begun.
func (a *Auditor) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for {
				select {
				case t := <-a.tasks:
					a.check(ctx, t)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	workers.Wait()
}
