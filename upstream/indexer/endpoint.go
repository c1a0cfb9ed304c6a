package indexer

import (
	"errors"
	"net/url"
	"sync"
	"time"
)

// endpoint is one server, or a load balancer before several, and what was
// learned of it.
type endpoint struct {
	*client
	name string // its host: the rest of the URL may be a key

	mu       sync.Mutex
	verified bool          // its chain id is the network's
	window   window        // what it gives at once
	calls    trial         // contracts or headers it lets us ask for at once
	pause    time.Duration // of the last rest; 0 when it is well
	until    time.Time     // it rests until then
	barred   error         // why it is not asked any more

	told [reasons]time.Time // when failures for each reason were last told of
}

func newEndpoint(rawURL string, o *Options) (*endpoint, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return nil, errMalformed
	}
	return &endpoint{
		client: &client{url: rawURL, http: o.client, timeout: o.Timeout, maxBody: o.MaxBody},
		name:   u.Host,
		window: newWindow(o.Window),
		calls:  trial{size: maxCalls, most: maxCalls, patience: 1},
	}, nil
}

// ask is how many blocks to ask for at once, and how many of them in each call.
func (e *endpoint) ask() (blocks, perCall int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.span(), e.window.blocks.size
}

// fits notes that a request for so many blocks was answered.
func (e *endpoint) fits(blocks int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if blocks == e.window.span() {
		e.window.fits()
	}
}

// tooMuch notes that a request for so many blocks was refused, and reports
// whether a smaller one makes sense.
func (e *endpoint) tooMuch(blocks int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if blocks > e.window.span() {
		return true // it was asked before it refused another
	}
	return e.window.refused(blocks)
}

// maxCalls is how many contracts or headers are asked for at once.
const maxCalls = 50

// several is how many contracts or headers to ask for at once.
func (e *endpoint) several() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.calls.size)
}

// called notes how asking for so many contracts or headers went. Silence may be
// for too many as well: each takes its time.
func (e *endpoint) called(calls int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, failed := errors.AsType[*trouble](err)
	switch {
	case err == nil && int64(calls) == e.calls.size:
		e.calls.fits(1)
	case failed && (t.reason == refused || t.reason == limited || t.reason == silent):
		e.calls.refused()
	}
}

// available returns until when the endpoint rests, or why it is not asked again.
func (e *endpoint) available() (until time.Time, barred error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.until, e.barred
}

// bar keeps the endpoint from being asked again.
func (e *endpoint) bar(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.barred = why
}

// trusted reports whether the endpoint is known to be of the network. trust says
// that it is, and doubt that it may have become another.
func (e *endpoint) trusted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.verified
}

func (e *endpoint) trust() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.verified = true
}

func (e *endpoint) doubt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.verified = false
}

// well notes an answer.
func (e *endpoint) well() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pause = 0
}

// tellAgain is how long failures for the same reason are not worth another word:
// a limit is hit several times a second.
const tellAgain = time.Minute

// tell reports whether a failure is to be told of.
func (e *endpoint) tell(why reason) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if last := e.told[why]; !last.IsZero() && now.Sub(last) < tellAgain {
		return false
	}
	e.told[why] = now
	return true
}

// rest keeps the endpoint from being asked for a time that grows with every
// failure in a row, from the least to maxPause, and for as long as it wishes. Of
// failures that come together one counts.
func (e *endpoint) rest(least, wished time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if !now.Before(e.until) {
		if e.pause > 0 {
			e.window.calls.refused() // nothing came since the last rest: perhaps it counts calls, and these are too many
		}
		e.pause = min(max(2*e.pause, least), maxPause)
		e.until = now.Add(e.pause)
	}
	if wish := now.Add(min(wished, maxWished)); wish.After(e.until) {
		e.until = wish
	}
}

const (
	maxPause   = 30 * time.Second
	maxWished  = 10 * time.Minute
	barredRest = time.Minute // of an endpoint that wants other credentials, where that may change
)
