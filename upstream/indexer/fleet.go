package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// A fleet asks one endpoint, and the next when that one fails.
type fleet struct {
	endpoints []*endpoint
	current   atomic.Int64 // counts on; modulo the endpoints it is the one to ask
	chainID   int64
	pause     time.Duration // the shortest rest
	patient   bool          // credentials that are refused may be accepted later
	log       *slog.Logger
	metrics   *metrics
}

// try lets the work be done with one endpoint after the other until it succeeds.
// Errors that are no *trouble end it, as does ctx.
func (f *fleet) try(ctx context.Context, work func(*endpoint) error) error {
	for {
		e, err := f.pick(ctx)
		if err != nil {
			return err
		}
		if err = f.verify(ctx, e); err == nil {
			err = work(e)
		}
		t, ok := errors.AsType[*trouble](err)
		if !ok {
			if err == nil {
				e.well()
				f.metrics.asked("ok")
			}
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.failed(e, t)
	}
}

// pick returns the endpoint to ask, and waits while all of them rest.
func (f *fleet) pick(ctx context.Context) (*endpoint, error) {
	for {
		first := f.current.Load()
		var soonest time.Time
		var barred error
		for i := range f.endpoints {
			e := f.at(first + int64(i))
			until, err := e.available()
			switch {
			case err != nil:
				barred = err
			case !time.Now().Before(until):
				return e, nil
			case soonest.IsZero() || until.Before(soonest):
				soonest = until
			}
		}
		if soonest.IsZero() {
			return nil, fmt.Errorf("%w: %w", ErrForbidden, barred)
		}
		if err := sleep(ctx, time.Until(soonest)); err != nil {
			return nil, err
		}
	}
}

func (f *fleet) at(i int64) *endpoint { return f.endpoints[i%int64(len(f.endpoints))] }

// verify makes sure that the endpoint is of the network: on the first request,
// and again after it was silent, for what comes back may be another.
func (f *fleet) verify(ctx context.Context, e *endpoint) error {
	if e.trusted() {
		return nil
	}
	results, err := e.batch(ctx, call{method: "eth_chainId"})
	if err != nil {
		return err
	}
	id, err := quantity(results[0].Str)
	if err != nil {
		return refusal("its chain id: %w", err)
	}
	if id != f.chainID {
		return fmt.Errorf("%w: %s has chain id %d, the network's is %d", ErrOtherChain, e.name, id, f.chainID)
	}
	e.trust()
	return nil
}

// failed draws the consequence of a failure: a rest, in which another endpoint
// takes over.
func (f *fleet) failed(e *endpoint, t *trouble) {
	f.metrics.asked(t.reason.String())
	at := f.current.Load()
	switch t.reason {
	case forbidden:
		if f.patient {
			e.rest(f.pause, barredRest)
		} else {
			e.bar(fmt.Errorf("%s: %w", e.name, t))
		}
	case silent:
		e.doubt()
		e.rest(f.pause, 0)
	default:
		e.rest(f.pause, t.after)
	}
	if f.at(at) == e {
		f.current.CompareAndSwap(at, at+1)
	}
	level := slog.LevelDebug
	if t.reason != lagging && e.tell(t.reason) {
		level = slog.LevelWarn
	}
	f.log.Log(context.Background(), level, "an endpoint fails", "endpoint", e.name, "reason", t.reason.String(), "error", t.err)
}

// ask is how many blocks to ask the next endpoint for at once, and in each call.
func (f *fleet) ask() (blocks, perCall int64) { return f.at(f.current.Load()).ask() }

func (r reason) String() string {
	return [...]string{"refused", "silent", "limited", "forbidden", "lagging"}[r]
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
