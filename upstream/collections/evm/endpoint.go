package evm

import (
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// An Endpoint is a server or a load balancer, with its learned limits and state.
type Endpoint struct {
	*client
	name   string // the host, because the rest of the URL may contain a key
	outage *upstream.Outage

	mu     sync.Mutex
	hashes map[int64]ledger.Hash // recently returned hashes by block
	logged [reasons]time.Time    // when a failure of each reason was last logged
	state
}

// A state holds the observations about an endpoint.
type state struct {
	verified  time.Time     // when its chain id was verified; zero if it must be verified
	useful    bool          // it has answered other calls since
	window    window        // blocks per request
	batch     adaptive      // calls per request
	pause     time.Duration // last pause; 0 after a success
	until     time.Time     // end of the pause
	refusals  int           // consecutive permanent refusals
	failures  int           // consecutive failures of any kind
	failing   time.Time     // when the first work of TryOther failed since the last one succeeded; zero if none did
	excluded  error         // why it is no longer used; nil if it is used
	trouble   *Failure      // current failure; nil if there is none
	since     time.Time     // beginning of the trouble
	doubts    int           // number of doubts since it was last forgiven
	doubted   time.Time     // time of the last doubt
	contested int64         // block whose two hashes were the reason for the last doubt; 0 if it had another reason
}

var errMalformed = errors.New("an endpoint's URL is malformed (not shown: it may hold a key)")

func newEndpoint(rawURL string, o *Options) (*Endpoint, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return nil, errMalformed
	}
	return &Endpoint{
		client: &client{url: rawURL, http: o.client, secret: upstream.NewRedactor(u), timeout: o.Timeout, maxBody: o.MaxBody, memory: o.Memory},
		name:   u.Host,
		outage: upstream.NewOutage(o.Logger, "execution client "+u.Host),
		hashes: map[int64]ledger.Hash{},
		state:  state{window: newWindow(o.Window), batch: adaptive{size: maxBatch, most: maxBatch, patience: 1}},
	}, nil
}

// Name returns the endpoint's host.
func (e *Endpoint) Name() string { return e.name }

func (e *Endpoint) snapshot() state {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// Window returns the number of blocks per request and per call.
func (e *Endpoint) Window() (blocks, perCall int64) {
	w := e.snapshot().window
	return w.span(), w.blocks.size
}

// Fits records that a request for a number of blocks and calls was answered.
func (e *Endpoint) Fits(blocks int64, calls int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if blocks == e.window.span() {
		e.window.fits()
	}
	if int64(calls) >= e.batch.size {
		e.batch.fits(1)
	}
}

// TooMuch records that a request for a number of blocks was refused or not answered. It reports whether a smaller request makes
// sense.
func (e *Endpoint) TooMuch(blocks int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case blocks > e.window.span():
		return true // the request was sent before another refusal
	case e.batch.raised && e.batch.size <= windowBatch:
		return e.batch.shrink() // the number of calls was raised, not the blocks
	case e.window.shrink(blocks):
		return true
	}
	return e.fewerCalls()
}

const (
	maxBatch    = 51 // maximum number of calls per request, including the head
	windowBatch = 4  // calls of a window: the head, two blocks and the logs
)

// fewerCalls reduces the calls per request below windowBatch after a refusal of a single block, and learns the blocks per call
// again. The caller must hold mu.
func (e *Endpoint) fewerCalls() bool {
	e.batch.size = min(e.batch.size, windowBatch)
	if !e.batch.shrink() {
		return false
	}
	e.window = newWindow(e.window.blocks.most)
	return true
}

// Single reports whether the endpoint accepts only one call per request.
func (e *Endpoint) Single() bool { return e.snapshot().batch.size == 1 }

// recordCalls records the outcome of a number of calls. It reports whether they were refused and half as many must be tried.
// Too many calls may also cause a timeout or a rate limit.
func (e *Endpoint) recordCalls(calls int, err error) (less bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f, failed := errors.AsType[*Failure](err)
	switch {
	case err == nil && int64(calls) >= e.batch.size:
		e.batch.fits(1)
	case !failed || f.Reason > Limited:
	case f.Reason == Refused || e.batch.raised || calls > windowBatch:
		e.batch.size = min(e.batch.size, int64(calls))
		if less = e.batch.shrink(); less {
			e.failures = 0 // already taken into account
		}
	}
	return less && f.Reason == Refused
}

// verifiedFor is how long a verified chain id is valid if the endpoint answers no other calls.
const verifiedFor = time.Minute
