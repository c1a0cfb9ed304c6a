package evm

import (
	"errors"
	"fmt"
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
	// maxHashes is the maximum number of remembered hashes per endpoint.
	maxHashes = 4096
)

// RecordHash records the hash that the endpoint returned for a block. Blocks are final, so if it returned another one
// before, RecordHash adds a doubt and returns a Contradiction.
func (e *Endpoint) RecordHash(block int64, hash ledger.Hash) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, known := e.hashes[block]
	if len(e.hashes) >= maxHashes {
		clear(e.hashes)
	}
	e.hashes[block] = hash
	if !known || before == hash {
		return nil
	}
	e.doubt()
	e.contested = block
	return Contradiction("block %d is %v, and was %v before", block, hash, before)
}

// Doubt adds a doubt about the endpoint, for example because it returned fewer logs than its headers promise.
func (e *Endpoint) Doubt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doubt()
	e.contested = 0
}

func (e *Endpoint) doubt() {
	e.doubts, e.doubted = e.currentDoubts()+1, time.Now()
}

// currentDoubts returns the number of doubts, 0 if they are forgiven.
func (s state) currentDoubts() int {
	if time.Since(s.doubted) > forgivenAfter {
		return 0
	}
	return s.doubts
}

// trusted returns the usable endpoints without doubts.
func (p *Pool) trusted() (all []*Endpoint) {
	for _, e := range p.endpoints {
		if s := e.snapshot(); s.currentDoubts() == 0 && s.excluded == nil {
			all = append(all, e)
		}
	}
	return all
}

// Trusted returns the number of usable endpoints without doubts.
func (p *Pool) Trusted() int { return len(p.trusted()) }

// candidates returns the trusted endpoints, or all if there are none.
func (p *Pool) candidates() []*Endpoint {
	if trusted := p.trusted(); trusted != nil {
		return trusted
	}
	return p.endpoints
}

// Doubts returns the number of doubts about all endpoints.
func (p *Pool) Doubts() (n int) {
	for _, e := range p.endpoints {
		n += e.snapshot().currentDoubts()
	}
	return n
}

// Unreliable returns ErrUnreliable if there are many doubts about every endpoint.
func (p *Pool) Unreliable() error {
	for _, e := range p.endpoints {
		if e.snapshot().currentDoubts() < maxDoubts {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", ErrUnreliable, p.endpoints[0].name)
}

// Contested returns the only endpoint and the block for which it returned another hash than before, if this made it unreliable.
// It returns nil if there are more endpoints, or if the last doubt had another reason.
func (p *Pool) Contested() (e *Endpoint, block int64) {
	if e = p.endpoints[0]; p.Len() > 1 || p.Unreliable() == nil {
		return nil, 0
	}
	if block = e.snapshot().contested; block == 0 {
		return nil, 0
	}
	return e, block
}

// Forgive removes the doubts about the endpoint.
func (e *Endpoint) Forgive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doubts = 0
}

// TryOne calls work once with one endpoint.
func (p *Pool) TryOne(e *Endpoint, work func(*Session) error) error {
	s := newSession(e)
	defer func() { s.held.Close() }() // of the last session
	return s.try(work)
}
