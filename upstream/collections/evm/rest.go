package evm

import (
	"fmt"
	"time"
)

// How long an endpoint that failed is not asked, in multiples of Options.Pause: twice as long with
// every failure in a row, up to maxPause.
const (
	maxPause      = 60
	maxLagPause   = 4   // of one that answers, but has not got so far, or knows another chain
	excludedPause = 120 // of one that wants other credentials or is of another chain, where that may change
)

const maxWished = 10 * time.Minute // the longest pause that an endpoint may ask for

const (
	// How many failures in a row may be for too many calls at once. An endpoint that
	// wants to be asked less often perhaps counts them.
	maxLimited  = 2
	maxFailures = 4

	// How many failures in a row, which asking again does not help against, are
	// believed: a refusal of what is asked may have to do with it.
	maxRefusals = 6
	maxExcluded = 3 // for Forbidden and OtherChain

	// logAgain is how long failures for the same reason are not worth another word:
	// a limit is hit several times a second.
	logAgain = time.Minute
)

// failed draws the consequences of the failure of work that began then: a rest, less that
// is asked at once, or the end where the pool is not patient and no answer will ever
// come. Of failures that come together one counts: work that began before the last rest
// ended was under way when that failure came, however much later it fails itself. It
// reports whether the log is to be told.
func (e *Endpoint) failed(f *Failure, began time.Time, o *Options) (tell bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts, most, wished := !began.Before(e.until), maxPause*o.Pause, time.Duration(0)
	hopeless := e.noteTrouble(f, counts)
	switch {
	case hopeless:
		e.outage.Begin(fmt.Errorf("%v: %w", f.Reason, f))
	case f.Reason == Lagging || f.Reason == Inconsistent:
		e.outage.End() // it answers
	default:
		e.outage.Failed(fmt.Errorf("%v: %w", f.Reason, f))
	}
	switch {
	case hopeless && !o.Patient:
		e.excluded = fmt.Errorf("%s: %w", e.name, f)
	case hopeless && !f.permanent:
		wished = excludedPause * o.Pause
	case f.Reason == Lagging || f.Reason == Inconsistent:
		most = maxLagPause * o.Pause
	case f.Reason <= Limited:
		wished = f.After
		if f.Reason == Silent && (e.useful || time.Since(e.verified) > verifiedFor) {
			e.verified = time.Time{} // but there would be no progress if that alone were answered
		}
		if counts {
			e.askLess(f.Reason)
		}
	}
	now := time.Now()
	if counts {
		e.pause = min(max(2*e.pause, o.Pause), most)
		e.until = now.Add(e.pause)
	}
	if wish := now.Add(min(wished, maxWished)); wish.After(e.until) {
		e.until = wish
	}
	if now.Sub(e.logged[f.Reason]) < logAgain {
		return false
	}
	e.logged[f.Reason] = now
	return true
}

// noteTrouble notes why the endpoint does not answer, and reports whether it never will.
func (e *Endpoint) noteTrouble(f *Failure, counts bool) (hopeless bool) {
	if f.Reason == Lagging || f.Reason == Inconsistent {
		e.trouble = nil // it answers
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

// askLess tries fewer calls at once after some failures in a row.
func (e *Endpoint) askLess(why Reason) {
	if e.failures++; e.batch.raised && e.batch.size <= windowBatch {
		e.batch.refused()
	} else if e.failures >= maxFailures || why == Limited && e.failures >= maxLimited {
		if !e.window.calls.refused() {
			e.fewerCalls()
		}
	}
}

// Well notes an answer.
func (e *Endpoint) Well() {
	e.mu.Lock()
	e.pause, e.refusals, e.failures, e.trouble, e.useful = 0, 0, 0, nil, true
	e.mu.Unlock()
	e.outage.End()
}
