package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// A read is a command that reads an entry.
type read struct {
	command
	at     string
	fields *redis.SliceCmd
}

func newRead(namespace, key string) *read {
	r := &read{at: entryKey(namespace, key)}
	r.key, r.single = r.at, true
	r.send = func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		r.fields = to.HMGet(ctx, r.at, "m", "b")
		return r.fields
	}
	return r
}

// Read implements [cache.Shared].
func (s *Store) Read(ctx context.Context, namespace, key string) (*cache.Entry, error) {
	ctx, span := startSpan(ctx, "redis.load")
	r := newRead(namespace, key)
	err := s.pipe(ctx, &r.command)
	upstream.EndSpan(span, err)
	e, _ := s.decodeFields(r.at, r.fields) // decodeFields counts the error
	return e, err
}

// Load implements [cache.Shared], in one round trip.
func (s *Store) Load(ctx context.Context, namespace string, keys ...string) (map[string]*cache.Entry, error) {
	ctx, span := startSpan(ctx, "redis.load")
	reads, batch := make([]*read, len(keys)), make([]*command, len(keys))
	for i, key := range keys {
		reads[i] = newRead(namespace, key)
		batch[i] = &reads[i].command
	}
	err := s.roundTrip(ctx, time.Now().Add(s.o.Timeout), batch)
	upstream.EndSpan(span, err)
	found := make(map[string]*cache.Entry, len(keys))
	for i, r := range reads {
		if e, _ := s.decodeFields(r.at, r.fields); e != nil {
			found[keys[i]] = e
		}
	}
	return found, err
}

// decodeFields returns nil if the entry is absent or cannot be decoded.
func (s *Store) decodeFields(at string, fields *redis.SliceCmd) (*cache.Entry, error) {
	if fields == nil {
		return nil, nil // not sent
	}
	if err := fields.Err(); isAnswer(err) && !redis.HasErrorPrefix(err, "NOPERM") { // pipe has counted others
		s.reportFailure(err) // the key holds another type
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
		s.reportCorrupt(at, err)
	}
	return e, err
}

// Save implements [cache.Shared].
func (s *Store) Save(ctx context.Context, namespace string, entries map[string]*cache.Entry, keep time.Duration) {
	var writes []*entryWrite
	for key, e := range entries {
		if body := s.codec.encodeBody(e.Body); body != nil {
			at := entryKey(namespace, key)
			writes = append(writes, &entryWrite{namespace: namespace, entry: at, meta: s.codec.encodeMeta(at, e), body: body, keep: keep, replaceAbove: -1})
		}
	}
	if len(writes) == 0 {
		return
	}
	_ = s.roundTrip(ctx, time.Now().Add(s.o.Timeout), s.writeCommands(s.write.EvalSha, -1, writes)) // each write has the error
	for i, w := range writes {
		_, failure := w.reply()
		_, _ = s.replyTo(ctx, w, -1) // counted
		if rest := writes[i+1:]; redis.HasErrorPrefix(failure, "NOSCRIPT") && len(rest) > 0 {
			_ = s.roundTrip(ctx, time.Now().Add(s.o.Timeout), s.writeCommands(s.write.EvalSha, -1, rest)) // replyTo has loaded the script
		}
	}
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
	record.Lease = max(0, lease.Val()) // negative without a lease or without an expiry
	if record.Entry, err = s.decodeFields(at, fields); record.Entry != nil {
		record.Expiry = expiry.Val()
	}
	return record, err
}
