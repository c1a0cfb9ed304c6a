package events

import (
	"errors"
	"fmt"
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
	errShare      = errors.New("subscriptions and unread events of this client use all of its memory")
)

// Memory reserved for a subscription, in bytes.
const (
	subscriptionWeight = 8 << 10 // with its label
	conditionWeight    = 512     // a compiled condition of its query
)

// errTooSlow ends a subscription whose events the client does not read. The text is the node's.
var errTooSlow = errors.New("internal subscription event buffer is out of capacity")

// A Client is a client's connection.
type Client struct {
	Name   string // the connections of a client have a common share of memory
	IsMany bool   // the connection may belong to many clients, and has no share
	Limit  int    // maximum number of subscriptions
	Wake   func() // called when a message arrives, with locks held. The owner must then call Next until it returns false.
	End    func() // closes the connection when memory is short; must not block. nil if it cannot be closed
}

// A Subscriber holds the subscriptions of a client's connection and queues their events in publishing order.
// Its methods are safe for concurrent use.
type Subscriber struct {
	Client
	feed          *Feed
	held          *account.Hold // memory of the subscriptions
	unread        *account.Hold // memory of the events in the queue, which other subscribers may hold, too
	mu            sync.Mutex
	closed        bool
	subscriptions map[string]*subscription // by Query.String; a canceled one stays until Next returns its end
	queue         []Message
	last          Message // returned by Next; its event is held until the next call
	woken         bool    // wake was called, and Next has not found the queue empty since
}

// A subscription is a subscriber's subscription with one query.
type subscription struct {
	owner *Subscriber
	query *query.Query
	label any
	bytes int    // reserved memory
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
	held         int         // bytes that count against the client's share; 0 if the event's memory is not reserved
}

// Subscriber returns a subscriber for a client's connection.
func (f *Feed) Subscriber(c Client) *Subscriber {
	memory := f.hub.memory
	return &Subscriber{
		Client: c, feed: f, held: memory.Open(c.Name, c.IsMany), unread: memory.OpenShared(c.Name, c.IsMany), subscriptions: map[string]*subscription{},
	}
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
	if len(s.subscriptions) >= s.Limit {
		return nil, fmt.Errorf("max_subscriptions_per_client %d reached", s.Limit)
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
	added := &subscription{owner: s, query: q, label: label, bytes: subscriptionWeight + conditionWeight*q.Conditions()}
	switch err := s.held.Start(added.bytes); {
	case errors.Is(err, account.ErrShare):
		return nil, errShare
	case err != nil:
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
	s.held.Release(int64(sub.bytes))
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
