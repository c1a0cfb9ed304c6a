package cache

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// acquire reads the shared store until it has a fresh entry (f.at, and fresh is true), or until the flight may read the origin. It
// then returns a lease that must be passed to publish, nil without a shared store. The lease is held, unless the shared store or the
// replica that has the lease fails or takes too long, or leases are ignored: then each replica reads for its own callers. A read
// ahead does not wait for another replica: it gets errHeld.
func (f *flight) acquire(ctx context.Context) (lease Lease, fresh bool, err error) {
	if !f.sp.shares(&f.q) {
		return nil, false, nil
	}
	// Listen before reading, so that no message is lost in between.
	woken := f.sp.keys.listen(f.q.Key)
	defer f.sp.keys.leave(f.q.Key)
	lease = f.c.o.Shared.NewLease(f.sp.namespace, f.q.Key, f.q.MaxHeight, f.q.For == ForAhead)
	end, _ := ctx.Deadline()
	until := upstream.WithLazyDeadline(ctx, end.Add(-f.c.o.OriginTimeout)) // the rest of the flight's time is the origin's
	defer until.Release()
	if f.sharedSilent || f.sp.keys.awaitWrite(until, f.q.Key) != nil { // the shared store failed just now: do not wait for it again
		return lease, false, nil
	}
	if f.read != nil && f.adopt(f.read) {
		return nil, true, nil
	}
	for until.Err() == nil {
		select {
		case <-woken: // arrived before the store is read
		default:
		}
		if f.takeRenewal() {
			return nil, true, nil
		}
		reply, err := lease.Acquire(ctx, cmp.Or(f.read, f.at.known())) // the newest entry of the store that this flight knows
		switch {
		case err != nil: // the shared store fails
			return lease, false, nil
		case reply.State == LeaseChanged:
			if f.read = reply.Entry; f.adopt(reply.Entry) {
				return nil, true, nil
			}
		case reply.State == LeaseGranted:
			lease.Keep(ctx)
			return lease, false, nil
		case f.q.For == ForAhead:
			return nil, false, errHeld
		case !f.c.awaitLease(until, woken, reply.Left): // its holder failed or took too long, or leases are ignored
			return lease, false, nil
		}
	}
	return lease, false, nil
}

// renew stores what another replica has announced for the key since the cached entry, and returns the key's slot.
func (r *request) renew(at *slot) *slot {
	if !r.sp.shares(&r.q) {
		return at
	}
	announced := r.sp.keys.takeRenewal(r.q.Key, at.known())
	if announced == nil || !r.q.requires().Believes(announced.Height) {
		return at
	}
	e := announced.Read(at.known())
	if e == nil || e.Height != announced.Height {
		return at
	}
	return r.sp.memory.put(&r.q, e)
}

// takeRenewal stores what another replica has announced and reports whether that is fresh.
func (f *flight) takeRenewal() (fresh bool) {
	at := f.renew(f.at)
	if at == f.at {
		return false
	}
	f.at, f.store = at, inShared
	return f.isFresh()
}

// adopt stores an entry of the shared store in memory and reports whether it is fresh.
func (f *flight) adopt(e *Entry) (fresh bool) {
	if !f.q.requires().Believes(e.Height) || e.sameAs(f.at) {
		return false
	}
	if at := f.put(e); at != f.at {
		f.at, f.store = at, inShared
	}
	return f.isFresh()
}

// publish writes the entry to the shared store, which ends the lease. After a failure, or with Entry.Failed, it only ends the lease.
// Callers do not wait for that, but the next flight of the key, a purge and Close do.
func (f *flight) publish(ctx context.Context, lease Lease, failure error) {
	if lease == nil {
		return
	}
	f.c.counts.writing.Add(1)
	w := f.sp.keys.beginWrite(f.q.Key)
	f.c.tasks.Go(func() {
		defer f.c.counts.writing.Add(-1)
		err := upstream.Guard(f.c.o.Logger, "lease", func() error {
			if failure != nil || f.at.entry.Failed { // the other replicas read the origin themselves
				return lease.Abandon(ctx, errors.Is(failure, upstream.ErrYielded))
			}
			return lease.Publish(ctx, f.at.entry, f.q.Policy.KeepFor(f.at.entry.Stamp(), f.c.o.Now))
		})
		f.sp.keys.endWrite(f.q.Key, w, err)
	})
}

// A writer that keeps renewing leases must not stall us. After maxUnreleased waits in a row that used up the flight's time, while
// the lease was neither released nor expired, leases are ignored for ignoredFor.
const (
	maxUnreleased = 5
	ignoredFor    = time.Minute
)

var (
	errNeverReleased = errors.New("cache: leases are held but never released")
	errExpired       = errors.New("cache: the lease expired")
)

func newLeaseBreaker(log *slog.Logger) *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     ignoredFor,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= maxUnreleased },
		IsExcluded:  func(err error) bool { return errors.Is(err, errExpired) || errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				log.Warn("ignoring other replicas' leases", "error", errNeverReleased)
			case to == gobreaker.StateClosed:
				log.Info("waiting for other replicas' leases again")
			}
		},
	})
}

// awaitLease waits for the replica that has the lease, for at most left, and reports whether to read the store again. While leases
// are ignored, it returns false at once.
func (c *Cache) awaitLease(ctx context.Context, woken <-chan bool, left time.Duration) (again bool) {
	_, _ = c.leases.Execute(func() (_ struct{}, err error) { // the breaker counts errors
		began, end := time.Now(), "timeout"
		timer := time.NewTimer(left)
		defer timer.Stop()
		c.counts.leaseWaiting.Add(1)
		defer c.counts.leaseWaiting.Add(-1)
		select {
		case again = <-woken:
			if end = "woken"; !again {
				end = "failed"
			}
		case <-timer.C:
			end, again, err = "expired", true, errExpired
		case <-ctx.Done():
			if err = ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
				err = errNeverReleased
			}
		}
		c.counts.leaseSeconds.WithLabelValues(end).Observe(time.Since(began).Seconds())
		return struct{}{}, err
	})
	return again
}
