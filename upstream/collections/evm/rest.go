package evm

import "time"

// How long an endpoint that failed is not asked. The pause doubles with every
// failure in a row.
const (
	maxPause      = 30 * time.Second
	maxLagPause   = 2 * time.Second  // of one that answers, but has not got so far, or knows another chain
	maxWished     = 10 * time.Minute // whatever it wishes
	excludedPause = time.Minute      // of one that wants other credentials or is of another chain, where that may change
)

// rest keeps the endpoint from being asked for a time that grows with every
// failure in a row, from the least to the most, and for as long as it wishes. Of
// failures that come together one counts: work that began before the last rest
// ended was under way when that failure came, however much later it fails itself.
func (e *Endpoint) rest(began time.Time, least, most, wished time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if !began.Before(e.until) {
		e.pause = min(max(2*e.pause, least), max(most, least))
		e.until = now.Add(e.pause)
	}
	if wish := now.Add(min(wished, maxWished)); wish.After(e.until) {
		e.until = wish
	}
}

// How many failures in a row may be for too many calls at once. An endpoint that
// wants to be asked less often perhaps counts them.
const (
	maxLimited  = 2
	maxFailures = 4
)

// noteFailure notes a failure, and tries fewer calls at once after some in a row.
// Failures that come together count once, as for rest.
func (e *Endpoint) noteFailure(began time.Time, why Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if began.Before(e.until) {
		return
	}
	if e.failures++; e.batch.raised && e.batch.size <= windowBatch {
		e.batch.refused()
	} else if e.failures >= maxFailures || why == Limited && e.failures >= maxLimited {
		if !e.window.calls.refused() {
			e.fewerCalls()
		}
	}
}

// How many failures in a row, which asking again does not help against, are
// believed: a refusal of what is asked may have to do with it.
const (
	maxRefusals = 6
	maxExcluded = 3 // for Forbidden and OtherChain
)

// noteTrouble notes why the endpoint does not answer, and reports whether it is to
// be believed that it never will. Failures that come together count once, as for
// rest.
func (e *Endpoint) noteTrouble(began time.Time, f *Failure) (hopeless bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.Reason == Lagging || f.Reason == Inconsistent {
		e.trouble = nil // it answers
		return false
	}
	if e.trouble == nil {
		e.since = time.Now()
	}
	e.trouble = f
	excluded := f.Reason == Forbidden || f.Reason == OtherChain
	if (excluded || f.permanent) && !began.Before(e.until) {
		e.refusals++
	}
	return excluded && e.refusals >= maxExcluded || f.permanent && e.refusals >= maxRefusals
}

// troubled is why the endpoint gives no answers, and since when; nil while it does.
func (e *Endpoint) troubled() (*Failure, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble, e.since
}

// logAgain is how long failures for the same reason are not worth another word:
// a limit is hit several times a second.
const logAgain = time.Minute

// worthLogging reports whether a failure for a reason is to be logged.
func (e *Endpoint) worthLogging(why Reason) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if last := e.logged[why]; !last.IsZero() && now.Sub(last) < logAgain {
		return false
	}
	e.logged[why] = now
	return true
}
