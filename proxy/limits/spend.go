package limits

import (
	"context"
	"net/http"
	"time"
)

type decision struct {
	allowed   bool
	remaining int           // requests that are allowed immediately
	reset     time.Duration // until the bucket is full
	retry     time.Duration // until the request would be allowed, if it was refused
}

// spend takes n requests from a limit, or none. The local bucket decides. Only if it allows requests of a rate that asks Redis,
// Redis decides in its place, unless it does not answer: a flood does not reach Redis.
func (a *Admission) spend(ctx context.Context, l limit, n int) decision {
	d, store := a.local.spend(l, n, time.Now()), "memory"
	if d.allowed && a.AsksRedis(l.Rate) {
		if shared, err := a.shared.take(ctx, l, n); err == nil {
			d, store = shared, "shared"
		}
	}
	a.count(l.kind, store, d.allowed, n)
	return d
}

func (a *Admission) count(kind, store string, allowed bool, requests int) {
	verdict := "refused"
	if allowed {
		verdict = "allowed"
	}
	a.counted.WithLabelValues(kind, store, verdict).Add(float64(requests))
}

// Renew determines the client of an earlier request again, with the current keys and trusted proxies. keyed says that
// it was admitted by its key. The error is a *failure.Failure.
func (a *Admission) Renew(r *http.Request, keyed bool) (c Client, err error) {
	c.Address = a.AddressOf(r)
	if keyed {
		c.Key, err = a.keyOf(r)
	} else if c.Key, keyed = a.KeyWithRate(r.Header.Get(KeyHeader)); keyed {
		c.Turn = a.NextTurn()
	}
	return c, err
}

// Delay returns how long a client must wait until its limits allow a request, judged by the local buckets. 0 means that
// it is allowed now. It takes nothing.
func (a *Admission) Delay(c *Client, now time.Time) (wait time.Duration) {
	for _, l := range a.limitsOf(c, Charge{}) {
		wait = max(wait, a.local.wait(l, 1, now))
	}
	return wait
}

// Spend takes a request from the limits of a client for an event, or returns the time after which they may allow it.
func (a *Admission) Spend(ctx context.Context, c *Client) (wait time.Duration) {
	if wait = a.Delay(c, time.Now()); wait > 0 {
		return wait
	}
	for _, l := range a.limitsOf(c, Charge{}) {
		if d := a.spend(ctx, l, 1); !d.allowed {
			return max(d.retry, time.Millisecond)
		}
	}
	return 0
}
