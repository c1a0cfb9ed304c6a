package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// errHeld ends a read ahead of what another replica reads already, and will tell of.
var errHeld = fmt.Errorf("%w: another replica has the lease", ErrYielded)

// acquire looks into the shared store until it gives an entry that is enough to end
// the flight, or the origin is this flight's to ask: because it has the lease,
// because the replica that had it failed, or because the shared store is not
// well. Then replicas go their own ways, and callers are still coalesced in each.
// The lease is to be released; it is nil without a shared store. A read ahead does not wait
// for another replica.
func (f *flight) acquire(ctx context.Context, l *flightResult) (lease Lease, enough bool, err error) {
	if !f.ch.shares(&f.q) {
		return nil, false, nil
	}
	// Listening begins before asking: a message between the two must not be lost.
	woken := f.ch.replicas.join(f.q.Key)
	defer f.ch.replicas.leave(f.q.Key)
	lease = f.c.o.Shared.NewLease(f.ch.namespace, f.q.Key, f.q.MaxHeight)
	until, cancel := f.waitForOthers(ctx)
	defer cancel()
	if f.sharedSilent || f.ch.pending.AwaitWrite(until, f.q.Key) != nil {
		return lease, false, nil
	}
	if f.read != nil {
		enough = f.adopt(l, f.read)
	}
	given := false // the lease may be ours, beside an entry
	for !enough && until.Err() == nil {
		drain(woken)
		if enough = f.renewed(l) || f.readChanged(ctx, l); enough || f.sharedSilent {
			break
		}
		reply, err := lease.Acquire(ctx, f.judged(l))
		switch {
		case err != nil:
			return lease, false, nil
		case reply.State == LeaseChanged:
			f.read, enough, given = reply.Entry, f.adopt(l, reply.Entry), true
		case reply.State == LeaseGranted:
			lease.Keep(ctx)
			return lease, false, nil
		case Ahead(ctx):
			return lease, false, errHeld
		case !f.c.awaitLease(until, woken, reply.Left):
			return lease, false, nil
		}
	}
	if enough && given {
		f.release(ctx, lease, *l, ErrYielded)
	}
	return lease, enough, nil
}

// judged is the newest entry that the shared store has, as far as is known.
func (f *flight) judged(l *flightResult) *Entry {
	if f.read != nil {
		return f.read
	}
	return l.at.known()
}

// readChanged reads an entry that has another content by now, as a message said that could
// not hold it, and tells whether that is enough to end the flight. To be told by the lease
// would cost the shared store more.
func (f *flight) readChanged(ctx context.Context, l *flightResult) (enough bool) {
	if !f.ch.replicas.drop(f.q.Key) {
		return false
	}
	read, err := f.c.o.Shared.Read(ctx, f.ch.namespace, f.q.Key)
	if f.sharedSilent = err != nil; read == nil {
		return false
	}
	f.read = read
	return f.adopt(l, read)
}

// renew takes over what another replica has told of a key since the entry at hand, and
// gives the slot that memory has then.
func (r *request) renew(at *slot) *slot {
	if !r.ch.shares(&r.q) {
		return at
	}
	told, ok := r.ch.replicas.take(r.q.Key, at.known())
	if !ok || !r.q.requires().Believes(told.Height) {
		return at
	}
	e := told.Read(at.known())
	if e == nil || e.Height != told.Height {
		return at
	}
	r.taken(e, true, "")
	return r.ch.memory.put(&r.q, e)
}

// renewed takes over what another replica has told of, and tells whether that is enough to
// end the flight.
func (f *flight) renewed(l *flightResult) (enough bool) {
	at := f.renew(l.at)
	if at == l.at {
		return false
	}
	l.at, l.store = at, inShared
	return f.fresh(at)
}

// adopt takes an entry of the shared store over into memory, and tells whether it is
// enough to end the flight.
func (f *flight) adopt(l *flightResult, e *Entry) (enough bool) {
	if !f.q.requires().Believes(e.Height) || e.sameAs(l.at) {
		return false
	}
	if at := f.keep(e); at != l.at {
		l.at, l.store = at, inShared
		f.taken(e, true, "")
	}
	return f.fresh(l.at)
}

// waitForOthers ends when what is left of the flight is due to the origin.
func (f *flight) waitForOthers(ctx context.Context) (context.Context, context.CancelFunc) {
	end, _ := ctx.Deadline()
	return context.WithDeadline(ctx, end.Add(-f.c.o.OriginTimeout))
}

// release settles the lease, or abandons it after a failure. The callers do not
// wait for that, but the next flight of the key does, and Close.
func (f *flight) release(ctx context.Context, lease Lease, l flightResult, failure error) {
	if lease == nil {
		return
	}
	f.c.counts.writing.Add(1)
	end := f.ch.pending.BeginWrite(f.q.Key)
	f.c.tasks.Go(func() {
		defer f.c.counts.writing.Add(-1)
		end(upstream.Guard(f.c.o.Logger, "lease", func() error {
			if failure != nil {
				return lease.Abandon(ctx, errors.Is(failure, ErrYielded))
			}
			return lease.Publish(ctx, l.at.entry, f.q.Policy.KeepFor(l.at.entry.Stamp(), f.c.o.Now))
		}))
	})
}

// drain forgets a message that came before the shared store is asked.
func drain(woken <-chan bool) {
	select {
	case <-woken:
	default:
	}
}

// A lease is honoured by a message when it is settled or given up. After so many in a
// row that were not, no lease is waited for until ignoredFor is over: any writer
// to the shared store can acquire leases, and renew them.
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
				log.Warn("ignoring other replicas' leases", "error", errUnhonoured)
			case to == gobreaker.StateClosed:
				log.Info("waiting for other replicas' leases again")
			}
		},
	})
}

// awaitLease waits for the replica that has the lease, at most for what is left
// of it, and tells whether to ask the shared store again.
func (c *Cache) awaitLease(ctx context.Context, woken <-chan bool, left time.Duration) (again bool) {
	_, _ = c.leases.Execute(func() (_ struct{}, err error) { // counted there
		again, err = c.counts.awaitHolder(ctx, woken, left)
		return struct{}{}, err
	})
	return again
}

func (n *counts) awaitHolder(ctx context.Context, woken <-chan bool, left time.Duration) (again bool, err error) {
	began := time.Now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	n.leaseWaiting.Add(1)
	defer n.leaseWaiting.Add(-1)
	select {
	case again := <-woken:
		n.leaseWaited(map[bool]string{true: "woken", false: "failed"}[again], began)
		return again, nil
	case <-timer.C:
		n.leaseWaited("expired", began)
		return true, errExpired
	case <-ctx.Done():
		n.leaseWaited("timeout", began)
		if errors.Is(ctx.Err(), context.Canceled) {
			return false, ctx.Err()
		}
		return false, errUnhonoured
	}
}
