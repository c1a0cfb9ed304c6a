package events

import (
	"context"
	"slices"
)

// offer queues an event for a subscription. Next drops the event if matches returns false. If the subscription has too many
// events in the queue, or there is no memory for the event, offer cancels the subscription and returns false. Events that Next
// will drop count. Only a client that has read all others gets an event for which there is no memory.
func (s *Subscriber) offer(sub *subscription, e *Event, matches func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || sub.ended {
		return true // end removes it from the hub
	}
	isFull := sub.waiting >= s.feed.o.Queue
	m := Message{Label: sub.label, Event: e, subscription: sub, matches: matches}
	if !isFull {
		m.held = s.hold(e)
	}
	if isFull || m.held == 0 && len(s.queue) > 0 {
		s.cancelLocked(sub)
		return false
	}
	s.push(m)
	return true
}

// hold holds an event for a message, and returns the bytes that count against the client's share: those of the event count for
// the first of its messages. It returns 0 if there is no memory, or if the client has used its share.
func (s *Subscriber) hold(e *Event) (bytes int) {
	bytes = messageWeight
	if n := len(s.queue); n == 0 || s.queue[n-1].Event != e {
		bytes += e.weight
	}
	if s.unread.Take(bytes) != nil {
		return 0
	}
	if !e.hold(s.feed.hub.memory) {
		s.unread.Release(int64(bytes))
		return 0
	}
	return bytes
}

// push adds a message to the queue.
func (s *Subscriber) push(m Message) {
	m.subscription.waiting++
	s.queue = append(s.queue, m)
	if !s.woken {
		s.woken = true
		s.Wake()
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

// unreadBytes returns the memory of the events in the queue, in bytes.
func (s *Subscriber) unreadBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread.Bytes() - int64(s.last.held)
}

// release releases the memory of a message's event.
func (s *Subscriber) release(m *Message) {
	if m.held > 0 {
		s.unread.Release(int64(m.held))
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
