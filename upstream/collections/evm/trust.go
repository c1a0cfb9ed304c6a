package evm

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// ErrUnreliable is the error if every endpoint keeps contradicting itself.
var ErrUnreliable = errors.New("execution clients keep contradicting themselves")

const (
	// maxDoubts is the number of doubts that make an endpoint unreliable.
	maxDoubts = 8
	// forgivenAfter is how long an endpoint is doubted after the last reason.
	forgivenAfter = 10 * time.Minute
	// maxTold is the maximum number of remembered hashes per endpoint.
	maxTold = 4096
)

// A trust records doubts about an endpoint. Blocks are final, so an endpoint that returns two hashes of a block is wrong, and so is
// one with fewer logs than its headers promise.
type trust struct {
	mu     sync.Mutex
	told   map[int64]ledger.Hash // recently returned hashes by block
	doubts int                   // number of doubts since it was last forgiven
	last   time.Time             // time of the last doubt
}

// Told records the hash that the endpoint returned for a block. If it returned another one before, Told adds a doubt and returns a
// Contradiction.
func (e *Endpoint) Told(block int64, hash ledger.Hash) error {
	t := &e.trust
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.told[block]
	if t.told == nil || len(t.told) >= maxTold {
		t.told = map[int64]ledger.Hash{}
	}
	t.told[block] = hash
	if !known || before == hash {
		return nil
	}
	t.doubt()
	return Contradiction("block %d is %v, and was %v before", block, hash, before)
}

// Doubt adds a doubt about the endpoint.
func (e *Endpoint) Doubt() {
	e.trust.mu.Lock()
	defer e.trust.mu.Unlock()
	e.trust.doubt()
}

func (t *trust) doubt() {
	if time.Since(t.last) > forgivenAfter {
		t.doubts = 0
	}
	t.doubts, t.last = t.doubts+1, time.Now()
}

// Doubts returns the number of doubts about the endpoint.
func (e *Endpoint) Doubts() int {
	t := &e.trust
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) > forgivenAfter {
		return 0
	}
	return t.doubts
}

// sound returns the usable endpoints without doubts.
func (p *Pool) sound() (all []*Endpoint) {
	for _, e := range p.endpoints {
		if _, excluded := e.available(); e.Doubts() == 0 && excluded == nil {
			all = append(all, e)
		}
	}
	return all
}

// Believed returns the number of usable endpoints without doubts.
func (p *Pool) Believed() int { return len(p.sound()) }

// believed returns the endpoints without doubts, or all if there are none.
func (p *Pool) believed() []*Endpoint {
	if sound := p.sound(); sound != nil {
		return sound
	}
	return p.endpoints
}

// Doubts returns the number of doubts about all endpoints.
func (p *Pool) Doubts() (n int) {
	for _, e := range p.endpoints {
		n += e.Doubts()
	}
	return n
}

// Unreliable returns ErrUnreliable if there are many doubts about every endpoint.
func (p *Pool) Unreliable() error {
	for _, e := range p.endpoints {
		if e.Doubts() < maxDoubts {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", ErrUnreliable, p.endpoints[0].name)
}

// AskOne calls work once with one endpoint.
func (p *Pool) AskOne(e *Endpoint, work func(*Session) error) error { return newSession(e).try(work) }
