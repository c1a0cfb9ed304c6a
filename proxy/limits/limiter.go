package limits

import (
	"context"
	"time"
)

// A decision is what a limit says to one request.
type decision struct {
	allowed   bool
	remaining int           // requests that may follow at once
	reset     time.Duration // until as many as ever may follow
	retry     time.Duration // until the next may, if this one may not
}

// spend takes n requests from who, or none. This process is asked first: what exceeds a
// limit here exceeds it everywhere, so that a flood does not reach Redis. Where
// Redis does not answer, this process has decided.
func (a *Admission) spend(ctx context.Context, who owner, rate Rate, n int) decision {
	d, store := a.local.spend(who, rate, n, time.Now()), "memory"
	if d.allowed && a.shared != nil {
		if told, err := a.shared.spend(ctx, who.kind+":"+who.String(), rate, n, n); err == nil {
			d, store = told.decision, "shared"
		}
	}
	a.count(who.kind, store, d.allowed)
	return d
}

// spendEvent is spend for an event. Redis is asked for several at once: events come at
// every block, to each stream.
func (a *Admission) spendEvent(ctx context.Context, who owner, rate Rate) decision {
	now := time.Now()
	d, store := a.local.spend(who, rate, 1, now), "memory"
	if d.allowed && a.shared != nil {
		prepaid := a.local.prepaid(who, rate, now)
		if prepaid.Add(-1) >= 0 {
			store = "shared"
		} else {
			prepaid.Add(1)
			if told, err := a.shared.spend(ctx, who.kind+":"+who.String(), rate, 1, eventsAtOnce(rate)); err == nil {
				d, store = told.decision, "shared"
				prepaid.Add(int64(max(0, told.taken-1)))
			}
		}
	}
	a.count(who.kind, store, d.allowed)
	return d
}

// mostAtOnce is how many events are taken from a shared bucket at once, of a large one.
const mostAtOnce = 16

// eventsAtOnce leaves other replicas most of a small bucket.
func eventsAtOnce(r Rate) int { return min(max(r.Burst/mostAtOnce, 1), mostAtOnce) }

// repeated takes one from who in this process alone. What it refuses comes again
// to spend, which counts it.
func (a *Admission) repeated(who owner, rate Rate, now time.Time) Standing {
	s := Standing{who.kind, rate, a.local.spend(who, rate, 1, now)}
	if s.allowed {
		a.count(who.kind, "memory", true)
	}
	return s
}

func (a *Admission) count(kind, store string, allowed bool) {
	verdict := "refused"
	if allowed {
		verdict = "allowed"
	}
	a.counted.WithLabelValues(kind, store, verdict).Inc()
}
