package cache

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"
)

// acquire looks into the shared store until it gives an entry that ends the
// flight, or the origin is this flight's to ask: because it has the lease,
// because the replica that had it failed, or because the shared store is not
// well. Then replicas go their own ways, and callers are still coalesced in each.
func (f *flight) acquire(ctx context.Context, at *slot) lookupResult {
	found := lookupResult{at: at, store: inMemory}
	if !f.ch.shares(&f.q) {
		return found
	}
	// Listening begins before asking: a message between the two must not be lost.
	woken := f.ch.waiters.join(f.q.Key)
	defer f.ch.waiters.leave(f.q.Key)
	found.lease = f.c.o.Shared.NewLease(f.ch.namespace, f.q.Key, f.q.MaxHeight)
	until, cancel := f.waitForOthers(ctx)
	defer cancel()
	if f.sharedSilent || f.ch.pending.AwaitWrite(until, f.q.Key) != nil {
		return found
	}
	judged := at.known()
	if f.read != nil {
		judged = f.read
		f.judge(&found, judged)
	}
	for !found.enough && until.Err() == nil {
		drain(woken)
		reply, err := found.lease.Acquire(ctx, judged)
		switch {
		case err != nil:
			return found
		case reply.State == LeaseChanged:
			judged = reply.Entry
			f.judge(&found, judged)
		case reply.State == LeaseGranted:
			found.lease.Keep(ctx)
			return found
		case !f.awaitLease(until, woken, reply.Left):
			return found
		}
	}
	return found
}

// judge takes over an entry of the shared store, and tells whether it ends the flight.
func (f *flight) judge(found *lookupResult, e *Entry) {
	if f.q.above(e) || e.sameAs(found.at) {
		return
	}
	if at := f.keep(e); at != found.at {
		found.at, found.store = at, inShared
		f.c.taken(&f.q, e, true, "", f.origin)
	}
	found.enough = f.q.state(found.at, f.c.o.Now()) == Fresh
}

// waitForOthers ends when what is left of the flight is due to the origin.
func (f *flight) waitForOthers(ctx context.Context) (context.Context, context.CancelFunc) {
	end, _ := ctx.Deadline()
	return context.WithDeadline(ctx, end.Add(-f.c.o.OriginTimeout))
}

// A lease is honoured by a message when it is settled or given up. After so many in a
// row that were not, no lease is waited for until the rest is over: whoever can write
// to the shared store can take leases, and renew them.
const (
	unhonouredToIgnore = 5
	ignoredFor         = time.Minute
)

var (
	errUnhonoured = errors.New("cache: leases are held, and nothing comes of them")
	errExpired    = errors.New("cache: the lease expired")
)

func newLeaseBreaker(log *slog.Logger) *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     ignoredFor,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= unhonouredToIgnore },
		IsExcluded:  func(err error) bool { return errors.Is(err, errExpired) || errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				log.Warn("leases of other replicas are ignored", "error", errUnhonoured)
			case to == gobreaker.StateClosed:
				log.Info("leases of other replicas are waited for again")
			}
		},
	})
}

// awaitLease waits for the replica that has the lease, at most for what is left
// of it, and tells whether to ask the shared store again.
func (f *flight) awaitLease(ctx context.Context, woken <-chan bool, left time.Duration) (again bool) {
	_, _ = f.c.leases.Execute(func() (_ struct{}, err error) { // counted there
		again, err = f.awaitHolder(ctx, woken, left)
		return struct{}{}, err
	})
	return again
}

func (f *flight) awaitHolder(ctx context.Context, woken <-chan bool, left time.Duration) (again bool, err error) {
	began := time.Now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	wait := f.c.counts.leaseWaited
	f.c.counts.leaseWaiting.Add(1)
	defer f.c.counts.leaseWaiting.Add(-1)
	select {
	case again := <-woken:
		if again {
			wait("woken", began)
		} else {
			wait("failed", began)
		}
		return again, nil
	case <-timer.C:
		wait("expired", began)
		return true, errExpired
	case <-ctx.Done():
		wait("timeout", began)
		if errors.Is(ctx.Err(), context.Canceled) {
			return false, ctx.Err()
		}
		return false, errUnhonoured
	}
}

// release settles the lease, or abandons it after a failure. The callers do not
// wait for that, but the next flight of the key does, and Close.
func (f *flight) release(ctx context.Context, lease Lease, r flightResult, failure error) {
	if lease == nil {
		return
	}
	f.c.counts.writing.Add(1)
	end := f.ch.pending.BeginWrite(f.q.Key)
	f.c.tasks.Go(func() {
		defer f.c.counts.writing.Add(-1)
		if failure != nil {
			end(lease.Abandon(ctx, errors.Is(failure, ErrYielded)))
			return
		}
		end(lease.Settle(ctx, r.at.entry, f.q.Policy.keep(r.at.entry, f.c.o.Now())))
	})
}
