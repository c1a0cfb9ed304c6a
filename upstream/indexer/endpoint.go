package indexer

import (
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
	window   window        // the blocks it gives at once
	pause    time.Duration // of the last rest; 0 when it is well
	until    time.Time     // it rests until then
	barred   error         // why it is not asked any more
}

// window is how many blocks an endpoint is asked for at once. What it refuses
// depends on the plan and on the logs there are, and each provider says it in
// its own words, so it is tried out: half as much after every failure, twice as
// much after a success. A size that never succeeded before it failed is a ceiling.
// It is tried again after a run of successes below it, a longer one each time.
type window struct {
	size, most int64
	ceiling    int64 // 0: none
	run        int   // successes since the size last changed
	patience   int   // successes before the ceiling is tried again
}

const maxPatience = 256

func (w *window) fits() {
	if w.size >= w.ceiling {
		w.ceiling, w.patience = 0, 1
	}
	next := min(2*w.size, w.most)
	if w.run++; w.ceiling == 0 || next < w.ceiling || w.run >= w.patience {
		if next > w.size {
			w.size, w.run = next, 0
		}
	}
}

// refused reports whether there is less to ask for.
func (w *window) refused() bool {
	if w.size == 1 {
		return false
	}
	if w.run == 0 {
		w.ceiling, w.patience = w.size, min(2*w.patience, maxPatience)
	}
	w.size, w.run = w.size/2, 0
	return true
}

func newEndpoint(rawURL string, o *Options) (*endpoint, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return nil, errMalformed
	}
	return &endpoint{
		client: &client{url: rawURL, http: o.client, timeout: o.Timeout, maxBody: o.MaxBody},
		name:   u.Host,
		window: window{size: o.Window, most: o.Window, patience: 1},
	}, nil
}

// ask is how many blocks to ask for.
func (e *endpoint) ask() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.size
}

// fits notes that a request for so many blocks was answered.
func (e *endpoint) fits(blocks int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if blocks == e.window.size {
		e.window.fits()
	}
}

// tooMuch notes that a request for so many blocks was refused, and reports
// whether a smaller one makes sense.
func (e *endpoint) tooMuch(blocks int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if blocks > e.window.size {
		return true // it was asked before it refused another
	}
	return e.window.refused()
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

// rest keeps the endpoint from being asked for a time that grows with every
// failure in a row, from the least to maxPause, and for as long as it wishes. Of
// failures that come together one counts.
func (e *endpoint) rest(least, wished time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if !now.Before(e.until) {
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
