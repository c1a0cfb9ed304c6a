package evm

import (
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// An Endpoint is one server, or a load balancer before several, and what was learned of it.
type Endpoint struct {
	*client
	name   string // its host: the rest of the URL may be a key
	outage *upstream.Outage
	trust  trust

	mu       sync.Mutex
	verified time.Time     // when its chain id was found right; zero: it is to be asked for
	useful   bool          // it has answered anything since
	window   window        // blocks that it gives at once
	batch    adaptive      // calls that it takes at once
	pause    time.Duration // of the last rest; 0 when it is well
	until    time.Time     // it rests until then
	refusals int           // in a row, that asking again does not help against
	failures int           // in a row, of any kind
	excluded error         // why it is not asked any more
	trouble  *Failure      // why it gives no answers; nil when it is well
	since    time.Time     // of the trouble

	logged [reasons]time.Time // when failures for each reason were last logged
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
		window: newWindow(o.Window),
		batch:  adaptive{size: maxBatch, most: maxBatch, patience: 1},
	}, nil
}

// Name is the endpoint's host.
func (e *Endpoint) Name() string { return e.name }

// Window is how many blocks to ask for at once, and how many of them in each call.
func (e *Endpoint) Window() (blocks, perCall int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.span(), e.window.blocks.size
}

// Fits notes that a request for so many blocks, in so many calls, was answered.
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

// TooMuch notes that a request for so many blocks was refused, or not answered,
// and reports whether a smaller one makes sense.
func (e *Endpoint) TooMuch(blocks int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case blocks > e.window.span():
		return true // it was asked before it refused another
	case e.batch.raised && e.batch.size <= windowBatch:
		return e.batch.refused() // more calls than before were tried, and not more blocks
	case e.window.refused(blocks):
		return true
	}
	return e.fewerCalls()
}

const (
	maxBatch    = 51 // calls that are made at once, that for the head included
	windowBatch = 4  // calls that a window takes: the head, two blocks and the logs
)

// fewerCalls tries less than a window's calls at once, as less than one block was not given in
// them, and finds out anew how many blocks are given. The caller holds the mutex.
func (e *Endpoint) fewerCalls() bool {
	e.batch.size = min(e.batch.size, windowBatch)
	if !e.batch.refused() {
		return false
	}
	e.window = newWindow(e.window.blocks.most)
	return true
}

// Single reports whether the endpoint takes no more than one call at once.
func (e *Endpoint) Single() bool { return e.batchSize() == 1 }

// several is how many calls to make at once, that for the head not counted.
func (e *Endpoint) several() int { return max(int(e.batchSize())-1, 1) }

func (e *Endpoint) batchSize() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.batch.size
}

// called notes how making so many calls went, and reports whether they were
// refused and half as many are to be made at once. Too many calls may also be why
// no answer came in time, or why the endpoint wants to be asked less often.
func (e *Endpoint) called(calls int, err error) (less bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f, failed := errors.AsType[*Failure](err)
	switch {
	case err == nil && int64(calls) >= e.batch.size:
		e.batch.fits(1)
	case !failed || f.Reason > Limited:
	case f.Reason == Refused || e.batch.raised || calls > windowBatch:
		e.batch.size = min(e.batch.size, int64(calls))
		if less = e.batch.refused(); less {
			e.failures = 0 // the conclusion is drawn: askLess needs new ones
		}
	}
	return less && f.Reason == Refused
}

// verifiedFor is how long an endpoint that answers nothing else is taken for the one
// whose chain id was right.
const verifiedFor = time.Minute

func (e *Endpoint) isVerified() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.verified.IsZero()
}

func (e *Endpoint) verify() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.verified, e.useful = time.Now(), false
}

// troubled is why the endpoint gives no answers, and since when; nil while it does.
func (e *Endpoint) troubled() (*Failure, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble, e.since
}

// available returns until when the endpoint rests, or why it is not asked again.
func (e *Endpoint) available() (until time.Time, excluded error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.until, e.excluded
}
