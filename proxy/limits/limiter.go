package limits

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"
)

type decision struct {
	allowed   bool
	remaining int           // requests that are allowed immediately
	reset     time.Duration // until the bucket is full
	retry     time.Duration // until the request would be allowed, if it was refused
	taken     int           // requests taken from the shared bucket
}

// spend takes n requests from a limit, or none. The local bucket decides first: a request that exceeds the limit in this
// process exceeds it everywhere, so a flood does not reach Redis. If Redis does not answer, the local decision stands.
func (a *Admission) spend(ctx context.Context, l limit, n int) decision {
	d, store := a.local.spend(l, n, time.Now()), "memory"
	if d.allowed && a.shared != nil {
		if shared, err := a.shared.spend(ctx, l, n, n); err == nil {
			d, store = shared, "shared"
		}
	}
	a.count(l.kind, store, d.allowed, n)
	return d
}

// spendEvent is spend for an event. It takes several from Redis at once: each stream sends events at every block.
func (a *Admission) spendEvent(ctx context.Context, l limit) decision {
	now := time.Now()
	d, store := a.local.spend(l, 1, now), "memory"
	if d.allowed && a.shared != nil {
		prepaid := &a.local.find(l, now).prepaid
		if prepaid.Add(-1) >= 0 {
			store = "shared"
		} else {
			prepaid.Add(1)
			ctx, cancel := context.WithTimeout(ctx, eventTimeout)
			defer cancel()
			most := min(max(l.Burst/mostAtOnce, 1), mostAtOnce) // leaves other replicas most of a small bucket
			if shared, err := a.shared.spend(ctx, l, 1, most); err == nil {
				d, store = shared, "shared"
				prepaid.Add(int64(max(0, shared.taken-1)))
			}
		}
	}
	a.count(l.kind, store, d.allowed, 1)
	return d
}

const (
	eventTimeout = time.Second // for taking events from Redis
	mostAtOnce   = 16          // events that are taken from a shared bucket at once
)

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
	for _, l := range a.limitsOf(c) {
		wait = max(wait, a.local.wait(l, now))
	}
	return wait
}

// Spend takes a request from the limits of a client for an event, or returns the time after which they may allow it.
func (a *Admission) Spend(ctx context.Context, c *Client) (wait time.Duration) {
	if wait = a.Delay(c, time.Now()); wait > 0 {
		return wait
	}
	for _, l := range a.limitsOf(c) {
		if d := a.spendEvent(ctx, l); !d.allowed {
			return max(d.retry, time.Millisecond)
		}
	}
	return 0
}

// Headers with the state of rate limits (draft-ietf-httpapi-ratelimit-headers).
const (
	StatusHeader = "Ratelimit"
	PolicyHeader = "Ratelimit-Policy"
)

// A Status is the state of one limit for a client. The zero Status means no limit.
type Status struct {
	kind string // address, key or rule
	rate Rate
	decision
}

// Statuses are the states of the limits of the address and of the key.
type Statuses [2]Status

// Limited reports whether there is a limit.
func (s *Status) Limited() bool { return s.rate != Rate{} }

// AppendText appends the value of StatusHeader.
func (s *Status) AppendText(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";r=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.remaining), 10), ";t="...), s.reset)
}

// AppendPolicy appends the value of PolicyHeader.
func (s *Status) AppendPolicy(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";q=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.rate.Burst), 10), ";w="...), max(s.rate.window(), time.Second))
}

// appendSeconds rounds up, so that a client that waits this long is not too early.
func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}
