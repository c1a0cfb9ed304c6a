package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

const (
	pingInterval    = 2 * time.Second // silence before a test; after another pingInterval the subscription fails
	resubscribeWait = 200 * time.Millisecond
)

// Subscribe implements [cache.Shared]. It subscribes to the channel of the namespace, again after each failure.
func (s *Store) Subscribe(ctx context.Context, namespace string, to cache.Subscriber) {
	for ctx.Err() == nil {
		err := upstream.Guard(s.o.Logger, "redis", func() error {
			return s.receive(ctx, namespace, to, s.rdb.Subscribe(ctx, channelOf(namespace)))
		})
		if errors.Is(err, upstream.ErrPanicked) {
			s.count(panicked)
		}
		if isAnswer(err) {
			s.messages.Record(err)
		}
		if !s.cluster && ctx.Err() == nil { // other nodes of a Cluster may work
			s.record(err)
		}
		_ = upstream.Sleep(ctx, resubscribeWait)
	}
}

// receive receives until the subscription fails.
func (s *Store) receive(ctx context.Context, namespace string, to cache.Subscriber, sub *redis.PubSub) error {
	defer sub.Close()
	// A read from a socket does not end with ctx, but with the socket.
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	for pinged := false; ; {
		msg, err := sub.ReceiveTimeout(ctx, pingInterval)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !pinged:
			pinged = true
			if err := s.testSubscription(ctx, namespace, sub); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			pinged = false
			upstream.GuardInput(s.o.Logger, "redis message", func() { s.handle(namespace, msg, to) })
		}
	}
}

// testSubscription makes Redis send a message. The message is an empty one to all replicas: a server that has left the Cluster or
// lost a failover still answers pings, but the replicas publish elsewhere. If the message cannot be published, because Redis is
// down or an ACL forbids it, a ping must do.
func (s *Store) testSubscription(ctx context.Context, namespace string, sub *redis.PubSub) error {
	within, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if s.rdb.Publish(within, channelOf(namespace), "").Err() == nil {
		return nil
	}
	return sub.Ping(ctx)
}

// handle processes one message: a mark and its subject.
func (s *Store) handle(namespace string, msg any, to cache.Subscriber) {
	switch msg := msg.(type) {
	case *redis.Subscription:
		s.record(nil)
		s.messages.End()
		to.NotifyAll() // earlier messages were lost
	case *redis.Message:
		if msg.Payload == "" {
			return
		}
		switch mark, about := msg.Payload[0], msg.Payload[1:]; mark {
		case renewalMark:
			s.handleRenewals(namespace, about, to)
		case purgeMark:
			sel, err := s.readAnnouncement(msg.Channel, about)
			if err != nil {
				s.countCorrupt(err) // not logged: the sender is unknown, so the line would not help
				return
			}
			to.Purge(sel)
		default:
			if key, ok := strings.CutPrefix(msg.Payload, waiterMark); ok {
				s.batcher.flush(entryKey(namespace, key))
			}
		}
	}
}

// A message that begins with renewalMark contains written entries, each as "<length of key> <length of m> <length of b>
// <key><m><b>". m is "+" or "-" if no entry was written: whether to read Redis again.
const (
	renewalMark = '*'

	maxPublished = 2 << 10 // bytes of a stored body in a message: longer ones are read by the replicas that need them
)

// handleRenewals passes on written entries. Signatures are checked when the entries are decoded.
func (s *Store) handleRenewals(namespace, about string, to cache.Subscriber) {
	for about != "" {
		key, m, b, rest, err := cutRenewal(about)
		if err == nil && len(m) == 1 {
			to.Notify(key, m == "+")
		} else if err == nil {
			err = s.handleRenewal(namespace, key, m, b, to)
		}
		if err != nil {
			s.countCorrupt(err) // not logged, as above
			return
		}
		about = rest
	}
}

func (s *Store) handleRenewal(namespace, key, m, b string, to cache.Subscriber) error {
	h, _, err := decodeHead(m)
	if err != nil {
		return err
	}
	to.Renewed(key, cache.Renewal{Height: h.height, ETag: h.etag, Whole: b != "", Size: len(key) + len(m) + len(b), Read: func(have *cache.Entry) *cache.Entry {
		at := entryKey(namespace, key)
		e, err := s.codec.decode(at, m, b, have)
		if err != nil {
			s.reportCorrupt(at, err)
		}
		return e
	}})
	return nil
}

// cutRenewal returns the first entry of a message without its mark, in a copy that does not retain the message.
func cutRenewal(about string) (key, m, b, rest string, err error) {
	var length [3]int
	rest = about
	for i := range length {
		var text string
		text, rest, _ = strings.Cut(rest, " ")
		n, bad := strconv.ParseUint(text, 10, 31)
		if bad != nil {
			return "", "", "", "", fmt.Errorf("%w: not a renewal", errCorrupt)
		}
		length[i] = int(n) //nolint:gosec // 31 bits
	}
	all := length[0] + length[1] + length[2]
	if all > len(rest) {
		return "", "", "", "", fmt.Errorf("%w: truncated renewal", errCorrupt)
	}
	own := strings.Clone(rest[:all])
	return own[:length[0]], own[length[0] : length[0]+length[1]], own[length[0]+length[1]:], rest[all:], nil
}
