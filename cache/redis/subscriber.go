package redis

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

const (
	quiet     = 15 * time.Second       // silence on the subscription before it is pinged; as much again and it is dead
	resubWait = 200 * time.Millisecond // rest before subscribing again
)

// Subscribe implements [cache.Shared], through all failures of the store.
func (s *Store) Subscribe(ctx context.Context, namespace string, to cache.Subscriber) {
	for ctx.Err() == nil {
		err := s.guard(func() error { return s.receive(ctx, namespace, to) })
		if errors.Is(err, errPanic) {
			s.failed(panicked)
		}
		select {
		case <-time.After(resubWait):
		case <-ctx.Done():
		}
	}
}

// receive subscribes once, and receives until the subscription fails.
func (s *Store) receive(ctx context.Context, namespace string, to cache.Subscriber) error {
	sub := s.rdb.Subscribe(ctx, channelOf(namespace))
	defer sub.Close()
	// A read from a socket does not end with ctx, but with the socket.
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	for pinged := false; ; {
		msg, err := sub.ReceiveTimeout(ctx, quiet)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !pinged:
			pinged = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			pinged = false
			s.handle(namespace, msg, to)
		}
	}
}

// handle hands on one message: a mark and what it is about.
func (s *Store) handle(namespace string, msg any, to cache.Subscriber) {
	switch msg := msg.(type) {
	case *redis.Subscription:
		to.NotifyAll() // messages sent before this one went unheard
	case *redis.Message:
		if msg.Payload == "" {
			return
		}
		switch mark, about := msg.Payload[0], msg.Payload[1:]; mark {
		case renewalMark:
			s.renewed(namespace, about, to)
		case purgeMark:
			sel, err := s.readAnnouncement(msg.Channel, about)
			if err != nil {
				s.countUnreadable(err) // without a line in the log, which a sender could fill
				return
			}
			to.Purged(sel)
		default:
			if key, ok := strings.CutPrefix(msg.Payload, wantMark); ok {
				s.settles.hurry(entryKey(namespace, key))
				return
			}
			to.Notify(about, mark == '+')
		}
	}
}
