package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/events/query"
)

// avoidFor is how long a node ranks behind the others after its subscription has ended.
const avoidFor = 10 * time.Second

// A nodeListener subscribes to one node at a time.
type nodeListener struct {
	*Feed
	query    string
	arrivals chan arrival
	outage   *upstream.Outage
	leftAt   map[string]time.Time             // by node; only listen uses it
	current  atomic.Pointer[nodeSubscription] // nil while there is none
}

// A nodeSubscription is a subscription at a node.
type nodeSubscription struct {
	node    string
	end     context.CancelCauseFunc
	dropped atomic.Bool // its events are discarded
}

// newNodeListener returns a listener for NewBlock events, from which all block events are built. With
// consensus it listens to all events, because a node keeps no order between two subscriptions.
func newNodeListener(f *Feed, consensus bool) *nodeListener {
	l := &nodeListener{
		Feed: f, query: kindTag + "='" + NewBlock + "'", arrivals: make(chan arrival), leftAt: map[string]time.Time{},
		outage: upstream.NewOutage(f.o.Logger, "stream of events"),
	}
	if consensus {
		l.query = kindTag + " EXISTS"
	}
	return l
}

// drop ends a subscription and discards the events that it delivered.
func (l *nodeListener) drop(s *nodeSubscription, why error) {
	s.dropped.Store(true)
	s.end(why)
	l.current.CompareAndSwap(s, nil) // s may have ended before, and another may be the current one
}

// listen subscribes to one node after the other until ctx ends.
func (l *nodeListener) listen(ctx context.Context) {
	delay := firstDelay
	for ctx.Err() == nil {
		if node, ok := l.chooseNode(); ok {
			received, err := l.stream(ctx, node)
			if ctx.Err() != nil {
				return
			}
			if received {
				delay = firstDelay
			}
			if errors.Is(err, upstream.ErrRemoved) {
				continue // with another node
			}
			l.outage.Begin(fmt.Errorf("%s: %w", node.Name, err))
			l.leftAt[node.Name] = time.Now()
		}
		_ = upstream.Sleep(ctx, delay)
		delay = min(2*delay, maxDelay)
	}
}

// chooseNode returns the first fit node that was not left recently, or else the one left first.
func (l *nodeListener) chooseNode() (chosen Node, ok bool) {
	var earliest time.Time
	for _, n := range l.o.Nodes() {
		left := l.leftAt[n.Name]
		if time.Since(left) > avoidFor {
			left = time.Time{}
		}
		if n.Fit() && (!ok || left.Before(earliest)) {
			chosen, ok, earliest = n, true, left
		}
	}
	return chosen, ok
}

// stream forwards a node's events until its subscription ends. It reports whether any event arrived.
func (l *nodeListener) stream(ctx context.Context, n Node) (received bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	messages, err := n.Subscribe(ctx, l.query)
	if err != nil {
		return false, err
	}
	defer messages.Close()
	l.outage.End()
	s := &nodeSubscription{node: n.Name, end: end}
	l.current.Store(s)
	defer l.current.Store(nil)
	for {
		a, err := l.nextArrival(ctx, messages)
		if err != nil {
			return received, cmp.Or(context.Cause(ctx), err)
		}
		a.from, a.epoch, received = s, l.o.Heights.Tip().Epoch, true
		select {
		case l.arrivals <- a:
		case <-ctx.Done():
			return received, context.Cause(ctx)
		}
	}
}

// nextArrival reads messages until one has to be forwarded.
func (l *nodeListener) nextArrival(ctx context.Context, stream Stream) (arrival, error) {
	for {
		result, err := stream.Next(ctx)
		if err != nil {
			return arrival{}, err
		}
		var a arrival
		err = upstream.Guard(l.o.Logger, "event", func() (err error) {
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

// readEvent decodes a message. It returns a zero arrival for an acknowledgement, and for events that
// this package builds from blocks.
func readEvent(result []byte) (a arrival, err error) {
	var m struct {
		Data struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		} `json:"data"`
		Events query.Tags `json:"events"`
	}
	if err := json.Unmarshal(result, &m); err != nil {
		return a, fmt.Errorf("decode event: %w", err)
	}
	kinds := m.Events[kindTag]
	if len(kinds) == 0 {
		return a, nil
	}
	a.at, a.bytes = time.Now(), len(result)
	switch kind := kinds[len(kinds)-1]; {
	case kind == NewBlock:
		a.block, err = blockFromEvent(m.Data.Value)
	case !slices.Contains(blockKinds, kind):
		a.event = &Event{Kind: kind, Tags: m.Events, dataType: m.Data.Type, value: m.Data.Value}
	}
	return a, err
}
