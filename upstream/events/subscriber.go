package events

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/events/query"
)

// What a node says to a subscription that it does not take or does not know.
var (
	errTooLong    = errors.New("maximum query length exceeded")
	errSubscribed = errors.New("already subscribed")
	errClosed     = errors.New("connection closed")
	ErrNotFound   = errors.New("subscription not found")
)

// errTooSlow is why a subscription ends whose events are not taken.
var errTooSlow = errors.New("internal subscription event buffer is out of capacity")

// A Subscriber is a client's connection with its subscriptions. What happens to them
// waits in one queue, in the order of publishing. Its methods may be called at any time.
type Subscriber struct {
	feed  *Feed
	most  int
	wake  func()
	works sync.WaitGroup // the goroutine that judges

	mu            sync.Mutex
	closed        bool
	subscriptions map[string]*subscription // by the identity of the query
	offered       []Message                // to be judged, and those behind them
	judging       bool                     // a goroutine judges what is offered
	queue         []Message
	taken         bool // wake was called, and Next has not found the queue empty since
}

// A subscription is one query of a subscriber.
type subscription struct {
	owner   *Subscriber
	query   *query.Query
	label   any
	waiting int  // events offered and in the queue; guarded by the owner's mu, like ended
	ended   bool // by the client: what waits is dropped
}

func (s *subscription) hasEnded() bool {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	return s.ended
}

// A Message is an event for a subscription, or its end.
type Message struct {
	Label any    // what was given with the subscription
	Event *Event // nil at the end
	End   error  // why the subscription ended

	of      *subscription
	verdict *verdict
}

// Subscriber makes a subscriber of at most so many subscriptions. Wake is called, with
// locks held, when a message comes: then its owner has to call Next until it finds none.
func (f *Feed) Subscriber(most int, wake func()) *Subscriber {
	return &Subscriber{feed: f, most: most, wake: wake, subscriptions: map[string]*subscription{}}
}

// Subscribe subscribes to the events that a query matches. The error is what a node says, or why
// events cannot be read.
func (s *Subscriber) Subscribe(text string, label any) error {
	if err := s.feed.Unsupported(); err != nil {
		return err
	}
	added, err := s.enter(text, label)
	if err == nil {
		s.feed.hub.add(added, s.feed.begin)
	}
	return err
}

func (s *Subscriber) enter(text string, label any) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if len(s.subscriptions) >= s.most {
		return nil, fmt.Errorf("max_subscriptions_per_client %d reached", s.most)
	}
	if len(text) > query.MaxLength {
		return nil, errTooLong
	}
	q, err := parse(text)
	if err != nil {
		return nil, err
	}
	if _, known := s.subscriptions[q.String()]; known {
		return nil, errSubscribed
	}
	added := &subscription{owner: s, query: q, label: label}
	s.subscriptions[q.String()] = added
	return added, nil
}

func parse(text string) (*query.Query, error) {
	q, err := query.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("failed to parse query: %w", err)
	}
	return q, nil
}

// Unsubscribe ends the subscription with a query.
func (s *Subscriber) Unsubscribe(text string) error {
	q, err := parse(text)
	if err != nil {
		return err
	}
	return s.end(func(identity string) bool { return identity == q.String() })
}

// UnsubscribeAll ends all subscriptions.
func (s *Subscriber) UnsubscribeAll() error { return s.end(func(string) bool { return true }) }

// end ends some subscriptions. Of what waits for them nothing is told any more.
func (s *Subscriber) end(which func(identity string) bool) error {
	s.mu.Lock()
	var ended []*subscription
	for identity, of := range s.subscriptions {
		if which(identity) {
			ended, of.ended = append(ended, of), true
			delete(s.subscriptions, identity)
		}
	}
	s.mu.Unlock()
	if len(ended) == 0 {
		return ErrNotFound
	}
	for _, of := range ended {
		s.feed.hub.remove(of)
	}
	return nil
}

// Close ends all subscriptions, refuses later ones, and waits until wake is called no more.
func (s *Subscriber) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_ = s.UnsubscribeAll()
	s.works.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
}

// put offers an event. It is false where too many wait: that ends the subscription.
func (s *Subscriber) put(of *subscription, e *Event, v *verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.ended {
		return true // it is about to be removed
	}
	m := Message{Label: of.label, Event: e, of: of, verdict: v}
	if of.waiting++; of.waiting > s.feed.o.Queue {
		m.Event, m.End, m.verdict = nil, errTooSlow, nil
		delete(s.subscriptions, of.query.String())
		s.feed.metrics.slow.Inc()
	}
	switch {
	case s.judging:
		s.offered = append(s.offered, m) // after earlier messages
	case m.verdict == nil:
		s.enqueue(m)
	default:
		s.offered, s.judging = append(s.offered, m), true
		s.works.Go(s.judge)
	}
	return m.End == nil
}

// judge queues what matches of the events offered, in their order, until there is none.
func (s *Subscriber) judge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.offered) > 0 {
		m := s.offered[0]
		s.offered[0] = Message{}
		s.offered = s.offered[1:]
		matches := false
		if !m.of.ended && !s.closed {
			s.mu.Unlock()
			_ = upstream.Guard(s.feed.o.Logger, "event query", func() error {
				matches = m.verdict.judge()
				return nil
			})
			s.mu.Lock()
		}
		if matches && !m.of.ended {
			s.enqueue(m)
		} else {
			m.of.waiting--
		}
	}
	s.offered, s.judging = nil, false
}

// enqueue queues a message. Call with mu held.
func (s *Subscriber) enqueue(m Message) {
	s.queue = append(s.queue, m)
	if !s.taken {
		s.taken = true
		s.wake()
	}
}

// Next is the next message, false where there is none. A transaction that cannot be found
// yet is waited for, and what follows it with it, until ctx ends.
func (s *Subscriber) Next(ctx context.Context) (Message, bool) {
	for {
		m, ok := s.first()
		if !ok {
			return Message{}, false
		}
		if m.Event != nil && m.Event.found != nil {
			select {
			case <-m.Event.found:
			case <-ctx.Done():
				return Message{}, false
			}
		}
		if s.pop(m) {
			return m, true
		}
	}
}

func (s *Subscriber) first() (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.queue, s.taken = nil, false
		return Message{}, false
	}
	return s.queue[0], true
}

// pop takes the first message off the queue. It is false where its subscription has ended.
func (s *Subscriber) pop(m Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return false
	}
	s.queue[0] = Message{}
	s.queue = s.queue[1:]
	m.of.waiting--
	return !m.of.ended
}
