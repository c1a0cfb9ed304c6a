package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

const (
	quiet     = 15 * time.Second       // silence on the subscription before it is pinged; as much again and it is dead
	resubWait = 200 * time.Millisecond // rest before subscribing again
)

// Subscribe implements [cache.Shared], through all failures of the store. In a Cluster a shard
// is where its slot is, and so has a connection of its own. What is for all replicas of all
// versions comes by the channel of the namespace there, too.
func (s *Store) Subscribe(ctx context.Context, namespace string, to cache.Subscriber) {
	var all sync.WaitGroup
	defer all.Wait()
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		for i := range shards {
			all.Go(func() {
				s.listen(ctx, namespace, to, func() *redis.PubSub { return cluster.SSubscribe(ctx, shardChannel(namespace, i)) })
			})
		}
	}
	s.listen(ctx, namespace, to, func() *redis.PubSub { return s.rdb.Subscribe(ctx, channelOf(namespace)) })
}

// listen subscribes again and again until ctx ends.
func (s *Store) listen(ctx context.Context, namespace string, to cache.Subscriber, subscribe func() *redis.PubSub) {
	for ctx.Err() == nil {
		err := upstream.Guard(s.o.Logger, "redis", func() error { return s.receive(ctx, namespace, to, subscribe()) })
		if errors.Is(err, upstream.ErrPanicked) {
			s.failed(panicked)
		}
		if !s.cluster && ctx.Err() == nil { // the other nodes of a Cluster may be well
			s.note(err)
		}
		rest := resubWait
		if refusesShards(err) {
			rest = quiet
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
}

// refusesShards tells that a Cluster is older than sharded channels, or allows none.
func refusesShards(err error) bool {
	return redis.HasErrorPrefix(err, "unknown command") || redis.HasErrorPrefix(err, "NOPERM")
}

// receive receives until the subscription fails.
func (s *Store) receive(ctx context.Context, namespace string, to cache.Subscriber, sub *redis.PubSub) error {
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
			if is, ok := msg.(*redis.Subscription); ok && is.Kind == "sunsubscribe" {
				return errMoved
			}
			pinged = false
			_ = upstream.Guard(s.o.Logger, "redis message", func() error {
				s.handle(namespace, msg, to)
				return nil
			})
		}
	}
}

var errMoved = errors.New("redis: the slot of the channel has moved to another node")

// handle hands on one message: a mark and what it is about.
func (s *Store) handle(namespace string, msg any, to cache.Subscriber) {
	switch msg := msg.(type) {
	case *redis.Subscription:
		s.note(nil)
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

// A message that begins with renewalMark says what was settled, of each entry
// "<length of key> <length of m> <length of b> <key><m><b>". An m that is a mark, "+" or "-", says as
// much as a message of its own.
const (
	renewalMark = '*'

	maxTold = 2 << 10 // bytes of a stored body in a message: longer ones are read by the replicas that need them
)

// renewed hands on what was settled. Seals are checked when it is read.
func (s *Store) renewed(namespace, about string, to cache.Subscriber) {
	for about != "" {
		key, m, b, rest, err := cutRenewal(about)
		if err == nil && len(m) == 1 {
			to.Notify(key, m == "+")
		} else if err == nil {
			err = s.renewedOne(namespace, key, m, b, to)
		}
		if err != nil {
			s.countUnreadable(err) // as with what cannot be purged
			return
		}
		about = rest
	}
}

func (s *Store) renewedOne(namespace, key, m, b string, to cache.Subscriber) error {
	h, _, err := decodeHead(m)
	if err != nil {
		return err
	}
	to.Renewed(key, cache.Renewal{Height: h.height, ETag: h.etag, Whole: b != "", Size: len(key) + len(m) + len(b), Read: func(have *cache.Entry) *cache.Entry {
		at := entryKey(namespace, key)
		e, err := s.codec.decode(at, m, b, have)
		if err != nil {
			s.unreadable(at, err)
		}
		return e
	}})
	return nil
}

// cutRenewal takes what is said of one entry off the front of a message, without its mark. That
// keeps nothing of the others in memory.
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
		return "", "", "", "", fmt.Errorf("%w: a renewal that ends early", errCorrupt)
	}
	own := strings.Clone(rest[:all])
	return own[:length[0]], own[length[0] : length[0]+length[1]], own[length[0]+length[1]:], rest[all:], nil
}
