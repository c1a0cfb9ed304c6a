package cache

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Subscriber takes the messages of other replicas. Its methods do not block.
type Subscriber interface {
	// Notify tells the flight of a key that the replica which had the lease has
	// settled it, or given it up: whether to ask the shared store again.
	Notify(key string, again bool)

	// Renewed is Notify where the message says what was settled.
	Renewed(key string, renewal Renewal)

	// NotifyAll has all flights ask again: messages may have been lost.
	NotifyAll()

	// Purged removes the selected entries from memory.
	Purged(sel Selection)
}

// waiters are the flights that wait for another replica's lease. A flight is the
// only one of its key, so a key has one channel at most. It carries whether to
// ask the shared store again.
type waiters struct {
	memory   *memory // to purge
	renewals *renewals
	mu       sync.Mutex
	byKey    map[string]chan bool
}

func (w *waiters) join(key string) <-chan bool {
	woken := make(chan bool, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byKey[key] = woken
	return woken
}

func (w *waiters) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, key)
}

// Notify implements [Subscriber].
func (w *waiters) Notify(key string, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	notify(w.byKey[key], again)
}

// Renewed implements [Subscriber]. What memory has no entry of, and no flight waits for, is
// not kept: no caller asks for it here.
func (w *waiters) Renewed(key string, renewal Renewal) {
	at := w.memory.peek(key)
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := w.byKey[key]
	if newer, _ := renewal.renews(at.known()); newer && (at != nil || woken != nil) {
		w.renewals.put(key, renewal)
	}
	notify(woken, true)
}

// NotifyAll implements [Subscriber].
func (w *waiters) NotifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, woken := range w.byKey {
		notify(woken, true)
	}
}

// Purged implements [Subscriber].
func (w *waiters) Purged(sel Selection) {
	w.renewals.purge(sel)
	w.memory.purge(sel)
}

// notify does not wait: a flight that has a message will ask anyway.
func notify(woken chan<- bool, again bool) {
	select {
	case woken <- again:
	default:
	}
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
				log.Warn("leases of other replicas are ignored", "error", errUnhonoured)
			case to == gobreaker.StateClosed:
				log.Info("leases of other replicas are waited for again")
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
