package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/events/query"
)

// Errors of subscribing and unsubscribing, with the node's texts.
var (
	errTooLong    = errors.New("maximum query length exceeded")
	errSubscribed = errors.New("already subscribed")
	errClosed     = errors.New("connection closed")
	ErrNotFound   = errors.New("subscription not found")
	errFull       = errors.New("there is no memory for another subscription")
)

// Memory reserved for a subscription, in bytes.
const (
	subscriptionWeight = 8 << 10 // with its label
	conditionWeight    = 512     // a compiled condition of its query
)

// errTooSlow ends a subscription whose events the client does not read. The text is the node's.
var errTooSlow = errors.New("internal subscription event buffer is out of capacity")

// A Subscriber holds the subscriptions of a client's connection and queues their events in publishing order.
// Its methods are safe for concurrent use.
type Subscriber struct {
	feed  *Feed
	limit int // of subscriptions
	wake  func()

	mu            sync.Mutex
	closed        bool
	subscriptions map[string]*subscription // by Query.String; a canceled one stays until Next returns its end
	queue         []Message
	last          Message // returned by Next; its event is held until the next call
	bytes         int64   // weight of the held events
	woken         bool    // wake was called, and Next has not found the queue empty since
}

// A subscription is a subscriber's subscription with one query.
type subscription struct {
	owner *Subscriber
	query *query.Query
	label any
	bytes int64  // reserved memory
	group *group // nil if the hub does not have it; guarded by hub.mu

	// Guarded by owner.mu.
	waiting int  // messages in the queue
	ended   bool // the client ended it
}

// A Message is an event for a subscription, or its end.
type Message struct {
	Label any    // the argument of Subscribe
	Event *Event // nil at the end
	End   error  // why the subscription ended

	subscription *subscription
	matches      func() bool // evaluates a costly query, once for all members of the group; nil if the event matches
	held         bool        // the event's memory is reserved
}

// Subscriber returns a subscriber with at most limit subscriptions. It calls wake, with locks held, when a
// message arrives. The owner must then call Next until it returns false.
func (f *Feed) Subscriber(limit int, wake func()) *Subscriber {
	return &Subscriber{feed: f, limit: limit, wake: wake, subscriptions: map[string]*subscription{}}
}

// Subscribe subscribes to the events that match a query. The error has the node's text, or says why no node provides events.
func (s *Subscriber) Subscribe(text string, label any) error {
	if err := s.feed.Unsupported(); err != nil {
		return err
	}
	added, err := s.register(text, label)
	if err == nil {
		s.feed.hub.add(added, s.feed.startAtTip)
	}
	return err
}

func (s *Subscriber) register(text string, label any) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if len(s.subscriptions) >= s.limit {
		return nil, fmt.Errorf("max_subscriptions_per_client %d reached", s.limit)
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
	added := &subscription{owner: s, query: q, label: label, bytes: int64(subscriptionWeight + conditionWeight*q.Conditions())}
	if !s.feed.o.Memory.Reserve(account.Events, added.bytes) {
		return nil, errFull
	}
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

// IsSubscribed reports whether there is a subscription.
func (s *Subscriber) IsSubscribed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscriptions) > 0
}

// Unsubscribe ends the subscription with a query. It does not parse a query that is too long for Subscribe, because that
// can take seconds.
func (s *Subscriber) Unsubscribe(text string) error {
	if len(text) > query.MaxLength {
		return ErrNotFound
	}
	q, err := parse(text)
	if err != nil {
		return err
	}
	return s.end(func(identity string) bool { return identity == q.String() })
}

// UnsubscribeAll ends all subscriptions.
func (s *Subscriber) UnsubscribeAll() error { return s.end(func(string) bool { return true }) }

// forget removes a subscription and releases its memory.
func (s *Subscriber) forget(sub *subscription) {
	delete(s.subscriptions, sub.query.String())
	s.feed.o.Memory.Release(account.Events, sub.bytes)
}

// end ends the selected subscriptions and removes their messages from the queue.
func (s *Subscriber) end(selects func(identity string) bool) error {
	s.mu.Lock()
	var ended []*subscription
	for identity, sub := range s.subscriptions {
		if selects(identity) {
			ended, sub.ended = append(ended, sub), true
			s.forget(sub)
		}
	}
	if len(ended) > 0 {
		s.remove(func(sub *subscription) bool { return sub.ended })
	}
	s.mu.Unlock()
	if len(ended) == 0 {
		return ErrNotFound
	}
	for _, sub := range ended {
		s.feed.hub.remove(sub)
	}
	return nil
}

// Close ends all subscriptions and refuses later ones. After it returns, wake is not called.
func (s *Subscriber) Close() {
	s.mu.Lock()
	s.closed = true
	s.release(&s.last)
	s.mu.Unlock()
	_ = s.UnsubscribeAll()
}

// offer queues an event for a subscription. Next drops the event if matches returns false. If the subscription has too many
// events in the queue, or the subscriber's events use too much memory, offer cancels the subscription and returns
// false. Events that Next will drop count. The hub holds the event if there is memory for it.
func (s *Subscriber) offer(sub *subscription, e *Event, matches func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || sub.ended {
		return true // end removes it from the hub
	}
	memory, isIdle := s.feed.o.Memory, len(s.queue) == 0
	isFull := sub.waiting >= s.feed.o.Queue || !isIdle && memory != nil && s.bytes+e.weight > memory.Limit()/8
	m := Message{Label: sub.label, Event: e, subscription: sub, matches: matches, held: !isFull && e.hold(s.feed.hub.memory)}
	if isFull || !m.held && !isIdle { // only a client that has read all others gets an event for which there is no memory
		s.cancelLocked(sub)
		return false
	}
	if m.held {
		s.bytes += e.weight
	}
	s.push(m)
	return true
}

// push adds a message to the queue.
func (s *Subscriber) push(m Message) {
	m.subscription.waiting++
	s.queue = append(s.queue, m)
	if !s.woken {
		s.woken = true
		s.wake()
	}
}

// cancelLocked replaces the unread events of a subscription by its end. The caller removes it from the hub.
func (s *Subscriber) cancelLocked(sub *subscription) {
	s.remove(func(other *subscription) bool { return other == sub })
	s.feed.metrics.slow.Inc()
	s.push(Message{Label: sub.label, End: errTooSlow, subscription: sub})
}

// cancel cancels all subscriptions that have unread events, and returns them. The caller must hold hub.mu.
func (s *Subscriber) cancel() (canceled []*subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscriptions {
		if sub.waiting > 0 && sub.group != nil {
			s.cancelLocked(sub)
			canceled = append(canceled, sub)
		}
	}
	return canceled
}

// unread returns the memory of the events in the queue, in bytes.
func (s *Subscriber) unread() (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes = s.bytes; s.last.held {
		bytes -= s.last.Event.weight
	}
	return bytes
}

// release releases the memory of a message's event.
func (s *Subscriber) release(m *Message) {
	if m.held {
		s.bytes -= m.Event.weight
		m.Event.release()
	}
	*m = Message{}
}

// remove removes the messages of the selected subscriptions from the queue.
func (s *Subscriber) remove(selects func(*subscription) bool) {
	s.queue = slices.DeleteFunc(s.queue, func(m Message) bool {
		selected := selects(m.subscription)
		if selected {
			m.subscription.waiting--
			s.release(&m)
		}
		return selected
	})
}

// Next removes and returns the next message for the client, and drops events before it that do not match. It returns
// false if there is none, or if ctx ends while it waits for the nodes to find the message's transaction. The memory of
// the event stays reserved until the next call of Next or Close.
func (s *Subscriber) Next(ctx context.Context) (Message, bool) {
	for {
		m, ok := s.first()
		if !ok {
			return Message{}, false
		}
		matches := m.matches == nil || m.matches() // without holding mu
		if matches && m.Event != nil && m.Event.found != nil {
			select {
			case <-m.Event.found:
			case <-ctx.Done():
				return Message{}, false
			}
		}
		if s.pop(m) && matches {
			return m, true
		}
	}
}

func (s *Subscriber) first() (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(&s.last)
	if len(s.queue) == 0 {
		s.queue, s.woken = nil, false
		return Message{}, false
	}
	return s.queue[0], true
}

// pop removes m, which was the first message of the queue. It returns false if m has been removed meanwhile.
func (s *Subscriber) pop(m Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.queue[0].subscription != m.subscription || s.queue[0].Event != m.Event {
		return false
	}
	s.queue[0] = Message{}
	s.queue = s.queue[1:]
	s.last = m
	m.subscription.waiting--
	if m.End != nil {
		s.forget(m.subscription)
	}
	return true
}
