package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// An Indexer fills one store. Several may safely fill the same store.
type Indexer struct {
	o       Options
	log     *slog.Logger
	pool    *evm.Pool
	metrics *metrics
	status  status

	refusals map[*evm.Endpoint]int // refused comparisons of logs; only the goroutine of apply uses it
	at       ledger.Cursor         // last cursor at the head; only Run uses it
	still    time.Time             // when the store reached it, or the heads of endpoints were last compared; only Run uses it
	resumed  bool                  // the store has logs of unknown endpoints, from an earlier run or another indexer; set before each fetch

	mu         sync.Mutex
	counted    map[*evm.Endpoint]bool // whether logs of an endpoint were applied without comparing all of them
	incomplete atomic.Bool            // the store must be marked as incomplete
}

// New returns an indexer, or an error if the options are invalid. It sends no requests.
func New(o Options) (*Indexer, error) {
	if o.Store == nil {
		return nil, errors.New("indexer: a Store is required")
	}
	o = o.WithDefaults()
	x := &Indexer{o: o, log: o.Logger, refusals: map[*evm.Endpoint]int{}, counted: map[*evm.Endpoint]bool{}}
	o.ChainID, o.Patient, o.Observe = o.Network.ChainID, o.Follow, func(result string) { x.metrics.requests.WithLabelValues(result).Inc() }
	var err error
	if x.pool, err = evm.NewPool(o.Options); err != nil {
		return nil, fmt.Errorf("indexer: %w", err)
	}
	x.metrics = newMetrics(o.Registerer, x)
	return x, nil
}

// Outages returns the outages of the execution clients.
func (x *Indexer) Outages() upstream.Outages { return x.pool.Outages() }

// maxRetry is the maximum pause after a failure, in multiples of Options.Pause.
const maxRetry = 30

// Run fills the store up to the head of the chain. With Follow it continues until ctx ends, and then returns ctx.Err(). It
// waits for endpoints that fail or lag, and for a busy store. Without Follow, other errors end it, contradictions and a lag of
// endpoints only after Options.Doubt. With Follow, only ErrOtherChain and ErrImported end it.
func (x *Indexer) Run(ctx context.Context) error {
	defer x.pool.Close()
	x.SetWaiting(nil)
	x.status.change(func(s *Status) {
		before := s.Err // remains until it makes progress
		if s.Ended {
			before = nil
		}
		*s = Status{Running: true, Err: before}
	})
	defer x.status.change(func(s *Status) { s.Running, x.status.ended = false, time.Now() })
	retry, began := x.o.Pause, time.Time{} // the next pause, and the first failure since a block was applied
	for at := int64(0); ; {
		var caughtUp bool
		err := x.guard(func() (err error) {
			caughtUp, err = x.advance(ctx)
			return err
		})
		if err == nil && caughtUp && !x.o.Follow {
			err = x.checkStable(ctx)
		}
		if now := x.Status().Cursor.Block; err == nil || now > at {
			at, retry, began = now, x.o.Pause, time.Time{}
		}
		if err != nil && began.IsZero() {
			began = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case x.isFinal(err, began):
			x.status.change(func(s *Status) { s.Err, s.Ended = err, true })
			return fmt.Errorf("index: %w", err)
		case err != nil:
			x.setErr(err)
			if err := upstream.Sleep(ctx, retry); err != nil {
				return err
			}
			retry = min(2*retry, maxRetry*x.o.Pause)
			continue
		}
		x.setErr(nil)
		if !caughtUp {
			continue
		}
		if !x.o.Follow {
			return nil
		}
		if err := upstream.Sleep(ctx, x.o.Poll); err != nil {
			return err
		}
	}
}

// guard calls work, which handles responses of endpoints. After a panic the data is read again, from another endpoint if
// there is one.
func (x *Indexer) guard(work func() error) error { return upstream.Guard(x.log, "indexer", work) }

// isFinal reports whether an error ends Run. began is the time of the first of the consecutive errors.
func (x *Indexer) isFinal(err error, began time.Time) bool {
	switch {
	case errors.Is(err, ErrOtherChain), errors.Is(err, ErrImported):
		return true
	case err == nil || x.o.Follow:
		return false
	case errors.Is(err, ErrIncomplete):
		return true
	case errors.Is(err, ErrDiverged), errors.Is(err, errInconsistent), errors.Is(err, errLagging), errors.Is(err, evm.ErrUnreliable):
		return time.Since(began) >= x.o.Doubt
	}
	return upstream.KindOf(err) != upstream.Overloaded && !errors.Is(err, ledger.ErrCursorMoved)
}

// advance advances the store to the current head. It reads the cursor from the store each time, because after a failure only
// the store knows it.
func (x *Indexer) advance(ctx context.Context) (caughtUp bool, err error) {
	if err := x.markIncomplete(ctx); err != nil {
		return false, err
	}
	m, err := x.o.Store.Mark(ctx)
	if err != nil {
		return false, err
	}
	cursor := m.Cursor
	if err := x.o.Network.checkStore(cursor); err != nil {
		return false, err
	}
	x.status.change(func(s *Status) {
		if s.Cursor.Chain == 0 && cursor.Chain != 0 {
			s.First = cursor.Block + 1
		}
		x.resumed = x.resumed || cursor.Block > s.Cursor.Block
		s.Cursor = cursor
	})
	head, by, err := x.head(ctx, cursor)
	if errors.Is(err, ErrDiverged) {
		return false, x.stepBack(ctx, cursor, err)
	}
	if err != nil {
		return false, err
	}
	x.status.change(func(s *Status) { s.Head = head })
	if err := x.forgive(ctx); err != nil {
		return false, err
	}
	if err := x.pool.Unreliable(); err != nil {
		return false, err
	}
	if cursor.Chain != 0 && cursor.Block == head {
		if head, err = x.laterHead(ctx, cursor, by); err != nil || cursor.Block == head {
			return true, err
		}
		x.status.change(func(s *Status) { s.Head = head })
	}
	next := span{cursor.Block + 1, head}
	if cursor.Chain == 0 {
		if next.from, err = x.start(ctx, head); err != nil {
			return false, err
		}
		x.status.change(func(s *Status) { s.First = next.from })
	}
	if next.from > next.to {
		return true, nil // the first block does not exist yet
	}
	return false, x.fill(ctx, cursor, next)
}

// finalReads is how often a run reads the store's block before it ends, and how often an only endpoint must return the same
// hash before it is trusted again.
const finalReads = 16

// forgive trusts the only endpoint again if it returns the same hash of the contested block in several reads in a row. More
// endpoints are not forgiven, because another one may be right.
func (x *Indexer) forgive(ctx context.Context) error {
	e, block := x.pool.Contested()
	if e == nil {
		return nil
	}
	for range finalReads {
		if _, err := x.headerOf(ctx, e, block); err != nil {
			return fmt.Errorf("%w: %w", x.pool.Unreliable(), err)
		}
		if err := upstream.Sleep(ctx, x.o.Pause); err != nil {
			return err
		}
	}
	e.Forgive()
	x.log.Info("execution client agrees with itself again", "endpoint", e.Name(), "block", block)
	return nil
}

// checkStable reads the store's block repeatedly, so that an endpoint with alternating responses is detected.
func (x *Indexer) checkStable(ctx context.Context) error {
	m, err := x.o.Store.Mark(ctx)
	cursor := m.Cursor
	if err != nil || cursor.Chain == 0 {
		return err
	}
	if cursor.Incomplete {
		return ErrIncomplete
	}
	before := x.pool.Doubts()
	for range finalReads {
		if _, _, err := x.head(ctx, cursor); err != nil {
			return err
		}
	}
	if x.pool.Doubts() > before {
		return fmt.Errorf("%w: block %d has more than one hash", errInconsistent, cursor.Block)
	}
	return nil
}

// stepBack moves the cursor back to the last block that an endpoint also has, if nothing was counted since. Otherwise it
// returns cause.
func (x *Indexer) stepBack(ctx context.Context, cursor ledger.Cursor, cause error) error {
	trail, err := x.o.Store.Trail(ctx, cursor)
	if err != nil || len(trail) == 0 {
		return cmp.Or(err, cause)
	}
	numbers := make([]int64, len(trail))
	for i, before := range trail {
		numbers[i] = before.Block
	}
	to := -1
	err = x.within(ctx, nil, func(e *evm.Session) error {
		_, answers, err := e.AtHead(ctx, trail[0].Block, getHeaders(numbers)...)
		for i, a := range answers {
			if h, invalid := parseHeader(a.Result, numbers[i]); invalid == nil && h.hash == trail[i].Hash {
				to = i
				return nil
			}
		}
		return err
	})
	if err != nil || to < 0 {
		return cmp.Or(err, cause)
	}
	x.log.Warn("block hashes changed, stepping back over blocks without events", "from", cursor.Block, "to", numbers[to])
	return x.o.Store.StepBack(ctx, cursor, trail[to])
}

// startTrace starts a trace of work on a span. Fetching and applying have separate traces, because windows are joined.
func (x *Indexer) startTrace(ctx context.Context, name string, s span) (context.Context, trace.Span) {
	return x.o.Tracing.Tracer("tipcache/indexer").Start(ctx, name,
		trace.WithAttributes(attribute.Int64("tipcache.from", s.from), attribute.Int64("tipcache.to", s.to)))
}

// endTrace ends a trace with the result. b may be nil.
func endTrace(span trace.Span, b *blocks, err error) {
	if b != nil && span.IsRecording() {
		span.SetAttributes(attribute.Int64("tipcache.to", b.to), attribute.Int("tipcache.events", len(b.events)))
	}
	upstream.EndSpan(span, err)
}
