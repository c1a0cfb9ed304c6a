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

// spend takes one request from who. This process is asked first: what exceeds a
// limit here exceeds it everywhere, so that a flood does not reach Redis. Where
// Redis does not answer, this process has decided.
func (a *Admission) spend(ctx context.Context, who owner, rate Rate) decision {
	d, store := a.local.spend(who, rate, time.Now()), "memory"
	if d.allowed && a.shared != nil {
		if told, err := a.shared.spend(ctx, who.kind+":"+who.String(), rate); err == nil {
			d, store = told, "shared"
		}
	}
	a.count(who.kind, store, d.allowed)
	return d
}

// repeated takes one from who in this process alone. What it refuses comes again
// to spend, which counts it.
func (a *Admission) repeated(who owner, rate Rate, now time.Time) Standing {
	s := Standing{who.kind, rate, a.local.spend(who, rate, now)}
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
