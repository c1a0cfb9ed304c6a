package evm

import (
	"fmt"
	"time"
)

// Pauses of an endpoint after failures, in multiples of Options.Pause. They double with every consecutive failure, up to
// maxPause.
const (
	maxPause      = 60
	maxLagPause   = 4   // after Lagging and Inconsistent
	excludedPause = 120 // after Forbidden and OtherChain in a patient pool
)

const maxRequestedPause = 10 * time.Minute // maximum for Retry-After

const (
	// Number of consecutive failures before fewer calls per request are tried. A rate limit may count calls.
	maxLimited  = 2
	maxFailures = 4

	// Number of consecutive permanent failures before the endpoint counts as unusable. A single one may depend on the
	// request.
	maxRefusals = 6
	maxExcluded = 3 // for Forbidden and OtherChain

	// logAgain is the minimum time between two log lines with the same reason, because a rate limit may be exceeded several
	// times per second.
	logAgain = time.Minute
)

// failed pauses the endpoint after a failure of work that began at began, and may reduce its requests. If the pool is not
// patient and the failure is permanent, it excludes the endpoint. Failures of concurrent work count once: work that began
// before the end of the last pause does not count. It reports whether the failure should be logged.
func (e *Endpoint) failed(f *Failure, began time.Time, o *Options) (log bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts, maxTime, requested := !began.Before(e.until), maxPause*o.Pause, time.Duration(0)
	permanent := e.recordTrouble(f, counts)
	switch {
	case permanent:
		e.outage.Begin(fmt.Errorf("%v: %w", f.Reason, f))
	case f.responds():
		e.outage.End()
	default:
		e.outage.Record(fmt.Errorf("%v: %w", f.Reason, f))
	}
	switch {
	case permanent && !o.Patient:
		e.excluded = fmt.Errorf("%s: %w", e.name, f)
	case permanent && !f.permanent:
		requested = excludedPause * o.Pause
	case f.Reason == Lagging || f.Reason == Inconsistent:
		maxTime = maxLagPause * o.Pause
	case f.Reason <= Limited:
		requested = f.After
		if f.Reason == Silent && (e.useful || time.Since(e.verified) > verifiedFor) {
			e.verified = time.Time{} // not if it answers only this call, because then there would be no progress
		}
		if counts {
			e.reduce(f.Reason)
		}
	}
	now := time.Now()
	if counts {
		e.pause = min(max(2*e.pause, o.Pause), maxTime)
		e.until = now.Add(e.pause)
	}
	if until := now.Add(min(requested, maxRequestedPause)); until.After(e.until) {
		e.until = until
	}
	if now.Sub(e.logged[f.Reason]) < logAgain {
		return false
	}
	e.logged[f.Reason] = now
	return true
}

// recordTrouble records the endpoint's failure, and reports whether it is permanent.
func (e *Endpoint) recordTrouble(f *Failure, counts bool) (permanent bool) {
	if f.responds() {
		e.trouble = nil
		return false
	}
	if e.trouble == nil {
		e.since = time.Now()
	}
	e.trouble = f
	excluded := f.Reason == Forbidden || f.Reason == OtherChain
	if (excluded || f.permanent) && counts {
		e.refusals++
	}
	return excluded && e.refusals >= maxExcluded || f.permanent && e.refusals >= maxRefusals
}

// reduce reduces the calls per request after some consecutive failures.
func (e *Endpoint) reduce(why Reason) {
	if e.failures++; e.batch.raised && e.batch.size <= windowBatch {
		e.batch.shrink()
	} else if e.failures >= maxFailures || why == Limited && e.failures >= maxLimited {
		if !e.window.calls.shrink() {
			e.fewerCalls()
		}
	}
}

// RecordSuccess records that the endpoint works.
func (e *Endpoint) RecordSuccess() {
	e.mu.Lock()
	e.pause, e.refusals, e.failures, e.trouble, e.useful = 0, 0, 0, nil, true
	e.mu.Unlock()
	e.outage.End()
}

// recordOther records work of TryOther that began at began.
func (e *Endpoint) recordOther(began time.Time, failed bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		e.failing = time.Time{}
	case failed && e.failing.IsZero():
		e.failing = began
	}
}
