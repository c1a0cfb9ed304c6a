package web

import "sync"

// A Readiness is the state of this replica: whether requests should be sent to it. A nil Readiness is always ready. It is safe for
// concurrent use.
type Readiness struct {
	mu      sync.Mutex
	ready   bool
	changed chan struct{} // closed by the next change
}

// NewReadiness returns a Readiness that is not ready.
func NewReadiness() *Readiness { return &Readiness{changed: make(chan struct{})} }

// Set sets whether the replica is ready.
func (r *Readiness) Set(ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ready != r.ready {
		close(r.changed)
		r.ready, r.changed = ready, make(chan struct{})
	}
}

// State reports whether the replica is ready, and returns a channel that is closed when this changes.
func (r *Readiness) State() (ready bool, changed <-chan struct{}) {
	if r == nil {
		return true, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready, r.changed
}
