package limits

import (
	"context"
	"net/http"
	"time"
)

// sharedEvent bounds how long Redis is asked for what an event costs.
const sharedEvent = time.Second

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
	address, key := a.ratesOf(c)
	if address != (Rate{}) {
		wait = a.local.wait(ownerOf(c.Address), address, now)
	}
	if key != (Rate{}) {
		wait = max(wait, a.local.wait(c.Key.owner(), key, now))
	}
	return wait
}

// Spend takes a request from the limits of a client that is served on without asking. It
// is not 0 where they have none, and then nothing is taken here; it is the time after
// which they may.
func (a *Admission) Spend(ctx context.Context, c *Client) (wait time.Duration) {
	address, key := a.ratesOf(c)
	if address == (Rate{}) && key == (Rate{}) {
		return 0
	}
	if wait = a.Affords(c, time.Now()); wait > 0 {
		return wait
	}
	ctx, cancel := context.WithTimeout(ctx, sharedEvent)
	defer cancel()
	if address != (Rate{}) {
		if d := a.spendEvent(ctx, ownerOf(c.Address), address); !d.allowed {
			return max(d.retry, time.Millisecond)
		}
	}
	if key != (Rate{}) {
		if d := a.spendEvent(ctx, c.Key.owner(), key); !d.allowed {
			return max(d.retry, time.Millisecond)
		}
	}
	return 0
}
