package probe

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// freshEvery is the number of samples for each sample on a fresh connection.
const freshEvery = 5

// reach is the number of blocks that no chain makes between two reads.
const reach = 10_000

// An endpoint is a server that is measured.
type endpoint struct {
	*server
	run *run

	newest     atomic.Int64  // newest block that its responses have named
	candidates chan response // for a comparison

	mu          sync.Mutex // guards the following
	samples     []sample
	last        int64 // block that the latest response or announcement named
	connections int   // number of connections that were kept so far
	announced   announcements
	pinned      Comparison
	trusted     Comparison
}

// A sample is one read of an endpoint at its newest block.
type sample struct {
	sent, done time.Time
	latency    time.Duration // since the scheduled time, including the time to connect
	fresh      bool          // on a connection of its own
	connection int           // number of the kept connection
	height     int64         // block that the response names; 0 for none
	names      bool          // responses to the query can name a block
	problem    string        // "" after a success
}

// A response is a sample's response, for a comparison.
type response struct {
	query  query
	height int64
	value  []byte
}

func newEndpoint(r *run, s *server) *endpoint {
	return &endpoint{server: s, run: r, candidates: make(chan response)}
}

// sample reads the endpoint at the fixed rate until sampling ends, whether or not earlier reads have ended. The reads end
// with ctx.
func (e *endpoint) sample(ctx, sampling context.Context) {
	kept := e.run.newClient()
	defer kept.CloseIdleConnections()
	var reads sync.WaitGroup
	defer reads.Wait()
	tick := time.NewTicker(time.Duration(float64(time.Second) / e.run.Rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-sampling.Done():
			return
		case <-tick.C:
		}
		q, fresh := e.queries[i%len(e.queries)], i%freshEvery == freshEvery-1
		if fresh {
			q = e.queries[i/freshEvery%len(e.queries)]
		}
		reads.Go(func() { e.take(ctx, kept, q, fresh) })
	}
}

// take takes one sample.
func (e *endpoint) take(ctx context.Context, client *http.Client, q query, fresh bool) {
	scheduled := time.Now()
	s := sample{sent: scheduled, fresh: fresh, names: q.names()}
	if fresh {
		client = e.run.newClient()
		defer client.CloseIdleConnections()
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		s.sent, s.connection = time.Now(), e.connection(fresh, info.Reused)
	}})
	a := e.read(traced, client, q, 0)
	if ctx.Err() != nil { // interrupted
		return
	}
	s.done, s.height, s.problem = time.Now(), a.height, a.problem
	s.latency = s.done.Sub(scheduled)
	if !e.names(a.height) {
		s.height, s.problem = 0, "names a block out of reach"
	}
	e.record(s)
	if s.problem == "" && a.height > 0 && q.isComparable() {
		select {
		case e.candidates <- response{q, a.height, a.value}:
		default: // a comparison is under way
		}
	}
}

// names records that the endpoint names a block, 0 for none. It returns false if the chain cannot have reached the block, because all
// servers would seem to be behind it. The endpoint may name such a block twice in a row: then the others were far behind.
func (e *endpoint) names(height int64) bool {
	e.mu.Lock()
	known := max(e.run.named.newest(), e.last)
	if height > 0 {
		e.last = height
	}
	e.mu.Unlock()
	if known > 0 && height-known > reach {
		return false
	}
	e.run.named.add(height)
	return true
}

// connection returns the number of a kept connection, or 0.
func (e *endpoint) connection(fresh, reused bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case fresh:
		return 0
	case !reused:
		e.connections++
	}
	return e.connections
}

func (e *endpoint) record(s sample) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.samples = append(e.samples, s)
	if s.height > e.newest.Load() {
		e.newest.Store(s.height)
	}
}
