package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/events/query"
)

// rest is how long a node that was left is the second choice.
const rest = 10 * time.Second

// An ear listens to one node at a time.
type ear struct {
	*Feed
	query    string
	arrivals chan arrival
	outage   *upstream.Outage
	left     map[string]time.Time       // when nodes were left; of listen
	on       atomic.Pointer[subscribed] // that is listened to; nil between two
}

// subscribed is a subscription at a node.
type subscribed struct {
	end  context.CancelCauseFunc
	void atomic.Bool // what came through it does not count
}

// newEar makes an ear for blocks, which are all that promised events are made of, or for
// all that happens: between two subscriptions a node keeps no order.
func newEar(f *Feed, wide bool) *ear {
	e := &ear{Feed: f, query: kindTag + "='" + NewBlock + "'", arrivals: make(chan arrival, 64), left: map[string]time.Time{}, outage: upstream.NewOutage(f.o.Logger, "stream of events")}
	if wide {
		e.query = kindTag + " EXISTS"
	}
	return e
}

// drop ends a subscription, and what came through it does not count any more.
func (e *ear) drop(s *subscribed, why error) {
	s.void.Store(true)
	s.end(why)
	e.on.Store(nil)
}

// listen subscribes at one node after the other until ctx ends.
func (e *ear) listen(ctx context.Context) {
	delay := firstDelay
	for ctx.Err() == nil {
		if node, ok := e.choose(); ok {
			heard, err := e.hear(ctx, node)
			if ctx.Err() != nil {
				return
			}
			if heard {
				delay = firstDelay
			}
			e.outage.Begin(fmt.Errorf("%s: %w", node.Name, err))
			e.left[node.Name] = time.Now()
		}
		_ = upstream.Sleep(ctx, delay)
		delay = min(2*delay, maxDelay)
	}
}

// choose finds a node: the first that is fit, or of those that were left lately the one left first.
func (e *ear) choose() (chosen Node, ok bool) {
	var earliest time.Time
	for _, n := range e.o.Nodes() {
		left := e.left[n.Name]
		if time.Since(left) > rest {
			left = time.Time{}
		}
		if n.Fit() && (!ok || left.Before(earliest)) {
			chosen, ok, earliest = n, true, left
		}
	}
	return chosen, ok
}

// hear passes on what a node streams until that ends, and says whether anything came.
func (e *ear) hear(ctx context.Context, n Node) (heard bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stream, err := n.Subscribe(ctx, e.query)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	e.outage.End()
	s := &subscribed{end: end}
	e.on.Store(s)
	defer e.on.Store(nil)
	for {
		a, err := e.next(ctx, stream)
		if err != nil {
			return heard, cmp.Or(context.Cause(ctx), err)
		}
		a.from, heard = s, true
		select {
		case e.arrivals <- a:
		case <-ctx.Done():
			return heard, context.Cause(ctx)
		}
	}
}

// next reads up to a message that is passed on.
func (e *ear) next(ctx context.Context, stream Stream) (arrival, error) {
	for {
		result, err := stream.Next(ctx)
		if err != nil {
			return arrival{}, err
		}
		var a arrival
		err = upstream.Guard(e.o.Logger, "event", func() (err error) {
			a, err = readEvent(result)
			return err
		})
		if err != nil && !errors.Is(err, upstream.ErrPanicked) {
			return arrival{}, err
		}
		if a.block != nil || a.event != nil {
			return a, nil
		}
	}
}

// readEvent reads a message. It returns a zero arrival for an acknowledgement, and for events that
// are made of blocks here.
func readEvent(result []byte) (a arrival, err error) {
	var m struct {
		Data struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		} `json:"data"`
		Events query.Tags `json:"events"`
	}
	if err := json.Unmarshal(result, &m); err != nil {
		return a, fmt.Errorf("an event is not understood: %w", err)
	}
	kinds := m.Events[kindTag]
	if len(kinds) == 0 {
		return a, nil
	}
	a.at = time.Now()
	switch kind := kinds[len(kinds)-1]; kind {
	case NewBlock:
		a.block, err = fromEvent(m.Data.Value)
	case NewBlockHeader, NewBlockEvents, NewEvidence, Tx, ValidatorSetUpdates:
	default:
		a.event = &Event{Kind: kind, Tags: m.Events, kind: m.Data.Type, value: m.Data.Value}
	}
	return a, err
}
