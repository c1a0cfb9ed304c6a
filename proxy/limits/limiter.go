package limits

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"
)

// A decision is what a limit says to one request.
type decision struct {
	allowed   bool
	remaining int           // requests that may follow at once
	reset     time.Duration // until as many as ever may follow
	retry     time.Duration // until the next may, if this one may not
	taken     int           // requests, of a shared bucket
}

// spend takes n requests from a limit, or none. This process is asked first: what exceeds a
// limit here exceeds it everywhere, so that a flood does not reach Redis. Where
// Redis does not answer, this process has decided.
func (a *Admission) spend(ctx context.Context, l limit, n int) decision {
	d, store := a.local.spend(l, n, time.Now()), "memory"
	if d.allowed && a.shared != nil {
		if told, err := a.shared.spend(ctx, l, n, n); err == nil {
			d, store = told, "shared"
		}
	}
	a.count(l.kind, store, d.allowed)
	return d
}

// spendEvent is spend for an event. Redis is asked for several at once: events come at
// every block, to each stream.
func (a *Admission) spendEvent(ctx context.Context, l limit) decision {
	now := time.Now()
	d, store := a.local.spend(l, 1, now), "memory"
	if d.allowed && a.shared != nil {
		prepaid := &a.local.find(l, now).prepaid
		if prepaid.Add(-1) >= 0 {
			store = "shared"
		} else {
			prepaid.Add(1)
			ctx, cancel := context.WithTimeout(ctx, sharedEvent)
			defer cancel()
			most := min(max(l.Burst/mostAtOnce, 1), mostAtOnce) // which leaves other replicas most of a small bucket
			if told, err := a.shared.spend(ctx, l, 1, most); err == nil {
				d, store = told, "shared"
				prepaid.Add(int64(max(0, told.taken-1)))
			}
		}
	}
	a.count(l.kind, store, d.allowed)
	return d
}

// sharedEvent bounds how long Redis is asked for what an event costs.
const sharedEvent = time.Second

// mostAtOnce is how many events are taken from a shared bucket at once, of a large one.
const mostAtOnce = 16

func (a *Admission) count(kind, store string, allowed bool) {
	verdict := "refused"
	if allowed {
		verdict = "allowed"
	}
	a.counted.WithLabelValues(kind, store, verdict).Inc()
}

// Renew is the client of a request that was admitted before, by the keys and the trusted
// proxies in force now; keyed says that it was admitted by its key. The error is a
// *failure.Failure.
func (a *Admission) Renew(r *http.Request, keyed bool) (c Client, err error) {
	c.Address = a.AddressOf(r)
	if keyed {
		c.Key, err = a.keyOf(r)
	}
	return c, err
}

// Affords is how long a client has to wait until its limits have a request; 0 where they
// have one now, as far as this process can tell. It takes nothing.
func (a *Admission) Affords(c *Client, now time.Time) (wait time.Duration) {
	for _, l := range a.limitsOf(c) {
		wait = max(wait, a.local.wait(l, now))
	}
	return wait
}

// Spend takes a request from the limits of a client that is served on without asking. It
// is not 0 where they have none, and then nothing is taken here; it is the time after
// which they may.
func (a *Admission) Spend(ctx context.Context, c *Client) (wait time.Duration) {
	if wait = a.Affords(c, time.Now()); wait > 0 {
		return wait
	}
	for _, l := range a.limitsOf(c) {
		if d := a.spendEvent(ctx, l); !d.allowed {
			return max(d.retry, time.Millisecond)
		}
	}
	return 0
}

// What tells a client how it stands (draft-ietf-httpapi-ratelimit-headers).
const (
	StandingHeader = "Ratelimit"
	PolicyHeader   = "Ratelimit-Policy"
)

// A Standing is what one limit says to a client. The zero Standing is of no limit.
type Standing struct {
	kind string // address or key
	rate Rate
	decision
}

// Standings are those of all limits: of the address, and of the key.
type Standings [2]Standing

// Limited tells whether there is a limit at all.
func (s *Standing) Limited() bool { return s.rate != Rate{} }

// AppendText appends the value of StandingHeader.
func (s *Standing) AppendText(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";r=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.remaining), 10), ";t="...), s.reset)
}

// AppendPolicy appends the value of PolicyHeader.
func (s *Standing) AppendPolicy(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";q=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.rate.Burst), 10), ";w="...), max(s.rate.window(), time.Second))
}

// appendSeconds rounds up: what is told is never too early.
func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}
