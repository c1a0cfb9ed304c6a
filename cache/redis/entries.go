package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

// decodeFields gives nil for what is absent or cannot be read.
func (s *Store) decodeFields(at string, fields *redis.SliceCmd) (*cache.Entry, error) {
	if fields == nil {
		return nil, nil // not asked
	}
	if err := fields.Err(); isReply(err) {
		s.refused(err) // the key holds something else
	}
	if len(fields.Val()) != 2 {
		return nil, nil
	}
	m, ok := fields.Val()[0].(string)
	if !ok {
		return nil, nil
	}
	b, _ := fields.Val()[1].(string)
	e, err := s.codec.decode(at, m, b, nil)
	if err != nil {
		s.unreadable(at, err)
	}
	return e, err
}

// Save implements [cache.Shared]. It sends the whole script with each entry: a
// pipeline has no second try with the script's text when the store has forgotten it.
func (s *Store) Save(ctx context.Context, namespace string, entries map[string]*cache.Entry, keep time.Duration) {
	_ = s.do(ctx, func(ctx context.Context) error { // counted
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for key, e := range entries {
				if keep := s.keepFor(e, keep); keep > 0 {
					at := entryKey(namespace, key)
					s.settle.Eval(ctx, p, []string{at, leaseKey(at)},
						s.codec.encodeMeta(at, e), s.codec.encodeBody(e.Body), keep.Milliseconds(), "", channelOf(namespace), key, 0, "", 0)
				}
			}
			return nil
		})
		return err
	})
}

// keepFor is how long an entry stays in the store: no longer than it can serve.
func (s *Store) keepFor(e *cache.Entry, keep time.Duration) time.Duration {
	if e.Expires.IsZero() {
		return keep
	}
	return min(keep, e.Expires.Sub(s.o.Now()))
}

// Inspect implements [cache.Shared].
func (s *Store) Inspect(ctx context.Context, namespace, key string) (record cache.SharedRecord, err error) {
	at := entryKey(namespace, key)
	var fields *redis.SliceCmd
	var expiry, lease *redis.DurationCmd
	err = s.do(ctx, func(ctx context.Context) error {
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			fields, expiry, lease = p.HMGet(ctx, at, "m", "b"), p.PTTL(ctx, at), p.PTTL(ctx, leaseKey(at))
			return nil
		})
		return err
	})
	if err != nil {
		return record, fmt.Errorf("redis: inspect: %w", err)
	}
	record.Lease = max(0, lease.Val()) // negative: no lease, or one without an expiry, which is none
	if record.Entry, err = s.decodeFields(at, fields); record.Entry != nil {
		record.Expiry = expiry.Val()
	}
	return record, err
}
