package evm

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// ErrUnreliable says that every endpoint goes on contradicting itself.
var ErrUnreliable = errors.New("execution clients go on contradicting themselves")

const (
	// maxDoubts is how many doubts make an endpoint unreliable.
	maxDoubts = 8
	// forgivenAfter is how long an endpoint is doubted after it last gave reason to.
	forgivenAfter = 10 * time.Minute
	// maxTold bounds the blocks whose hashes are remembered of an endpoint.
	maxTold = 4096
)

// trust is how far an endpoint is believed. Blocks are final, so that one which tells two hashes of
// a block is wrong about one of them, as is one whose logs are fewer than its headers say.
type trust struct {
	mu     sync.Mutex
	told   map[int64]ledger.Hash // of the blocks that it told lately
	doubts int                   // reasons to doubt it, since it was last forgiven
	last   time.Time             // of the doubts
}

// Told notes the hash that the endpoint tells of a block. It is a contradiction, and one more doubt,
// if the endpoint told another one before.
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

// Doubt notes a reason to doubt the endpoint.
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

// Doubts is how many reasons there are to doubt the endpoint.
func (e *Endpoint) Doubts() int {
	t := &e.trust
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) > forgivenAfter {
		return 0
	}
	return t.doubts
}

// sound are the endpoints to ask without a doubt.
func (p *Pool) sound() (all []*Endpoint) {
	for _, e := range p.endpoints {
		if _, excluded := e.available(); e.Doubts() == 0 && excluded == nil {
			all = append(all, e)
		}
	}
	return all
}

// Believed is how many endpoints there are to ask without a doubt.
func (p *Pool) Believed() int { return len(p.sound()) }

// believed are the endpoints to ask: those without a doubt, or all of them if there is none such.
func (p *Pool) believed() []*Endpoint {
	if sound := p.sound(); sound != nil {
		return sound
	}
	return p.endpoints
}

// Doubts is how many reasons there are to doubt the endpoints, all together.
func (p *Pool) Doubts() (n int) {
	for _, e := range p.endpoints {
		n += e.Doubts()
	}
	return n
}

// Unreliable returns ErrUnreliable if there are many doubts of every endpoint.
func (p *Pool) Unreliable() error {
	for _, e := range p.endpoints {
		if e.Doubts() < maxDoubts {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", ErrUnreliable, p.endpoints[0].name)
}

// AskOne lets the work be done once, with one endpoint.
func (p *Pool) AskOne(e *Endpoint, work func(*Session) error) error { return newSession(e).try(work) }
