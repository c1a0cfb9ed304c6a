package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// lease implements [cache.Lease].
type lease struct {
	s          *Store
	key        string
	namespace  string
	entry      string // Redis key of the entry
	shard      string // channel for messages in a Cluster, otherwise ""
	token      string
	maxHeight  int64  // as in [cache.Shared.NewLease]
	held       bool   // this replica may hold the lease; after a lost reply it is not certain
	storedETag string // ETag of the entry in Redis, or ""
	stop       func() // ends Keep
}

// NewLease implements [cache.Shared]. It flushes an earlier write of the key, which must reach Redis before the lease
// is acquired.
func (s *Store) NewLease(namespace, key string, maxHeight int64) cache.Lease {
	entry := entryKey(namespace, key)
	s.batcher.flush(entry)
	l := &lease{s: s, namespace: namespace, key: key, entry: entry, maxHeight: maxHeight, token: s.newToken(entry), stop: func() {}}
	if s.cluster {
		l.shard = shardOf(namespace, key)
	}
	return l
}

func (l *lease) keys() []string { return []string{l.entry, leaseKey(l.entry)} }

// Acquire implements [cache.Lease]. It removes a corrupt entry and tries once more.
func (l *lease) Acquire(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	ctx, span := startSpan(ctx, "redis.acquire")
	held := l.held
	defer func() {
		if l.held != held {
			l.s.batcher.setHeld(l.entry, l.held)
		}
		endSpan(span, stateNames[reply.State], err)
	}()
	reply, err = l.tryAcquire(ctx, judged)
	notified := reply.State == cache.LeaseBusy && l.shard == "" // by checkHolder; a read ahead does not notify the holder
	if err == nil && reply.State == 0 {
		reply, err = l.acquireFrom(ctx, judged, "")
	}
	if errors.Is(err, errCorrupt) {
		l.s.reportCorrupt(l.entry, err)
		if err = l.s.do(ctx, func(ctx context.Context) error { return l.s.rdb.Del(ctx, l.entry).Err() }); err == nil {
			reply, err = l.acquireFrom(ctx, nil, "")
		}
	}
	switch {
	case err != nil:
		return cache.LeaseReply{}, err
	case reply.State == cache.LeaseBusy && !notified && !cache.Ahead(ctx):
		l.publish(ctx, waiterMark+l.key) // if it is lost, the holder's batch is due soon
	}
	return reply, nil
}

// tryAcquire acquires the lease if the entry is as the caller knows it, or finds that another replica holds it. It
// costs Redis half as much as acquireScript. If the state is 0, the caller must run acquireScript. For a read ahead it
// returns busy without looking at the holder.
func (l *lease) tryAcquire(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	var free *redis.StatusCmd
	var stored *redis.StringCmd
	err = l.s.run(ctx, &command{key: l.entry, waitsForBatch: true, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		free = to.SetArgs(ctx, leaseKey(l.entry), l.token, redis.SetArgs{Mode: "NX", TTL: l.s.o.Lease})
		stored = to.HGet(ctx, l.entry, "m")
		return stored
	}})
	if err != nil {
		l.held = l.held || kindOf(err) != unavailable
		return reply, err
	}
	none := free.Err()
	if none != nil && !errors.Is(none, redis.Nil) {
		l.s.recordWrite(none)
		l.s.reportReply(none)
		return reply, none
	}
	before, granted := l.held, none == nil
	l.held, l.storedETag = before || granted, ""
	known := errors.Is(stored.Err(), redis.Nil)
	if judged != nil && strings.HasPrefix(stored.Val(), string(version(judged))) {
		known, l.storedETag = true, judged.ETag
	}
	switch {
	case granted && known:
		reply.State = cache.LeaseGranted
	case !granted && !before && cache.Ahead(ctx):
		reply.State = cache.LeaseBusy
	case known:
		return l.checkHolder(ctx)
	}
	return reply, nil
}

// checkHolder reads the holder of the lease that tryAcquire has found, and publishes that a caller waits, except in a
// Cluster. If the reply to an earlier try was lost, this replica already holds the lease.
func (l *lease) checkHolder(ctx context.Context) (reply cache.LeaseReply, err error) {
	var holder *redis.StringCmd
	var left *redis.DurationCmd
	notified := &redis.IntCmd{}
	err = l.s.run(ctx, &command{key: l.entry, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		holder, left = to.Get(ctx, leaseKey(l.entry)), to.PTTL(ctx, leaseKey(l.entry))
		if l.shard != "" {
			return left
		}
		notified = to.Publish(ctx, channelOf(l.namespace), waiterMark+l.key)
		return notified
	}})
	if err != nil {
		return reply, err
	}
	if notified.Err() != nil {
		l.s.reportReply(notified.Err())
	}
	if l.held = holder.Val() == l.token; l.held {
		reply.State = cache.LeaseGranted
	} else if left.Val() > 0 && left.Val() <= l.s.o.Lease && l.s.verifyHolder(leaseKey(l.entry), holder.Val()) == nil {
		reply.State, reply.Left = cache.LeaseBusy, left.Val()
	}
	return reply, nil
}

// waiterMark begins a message that a caller waits for the lease of the key that follows.
const waiterMark = "+\x00"

// Keep implements [cache.Lease].
func (l *lease) Keep(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	l.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		tick := time.NewTicker(l.s.o.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = l.s.do(ctx, func(ctx context.Context) error { // counted; the next tick tries again
					return l.s.keep.Run(ctx, l.s.rdb, l.keys()[1:], l.token, l.s.o.Lease.Milliseconds()).Err()
				})
			case <-ctx.Done():
				return
			}
		}
	}()
}

// Publish implements [cache.Lease]. It does not store an expired entry.
func (l *lease) Publish(ctx context.Context, e *cache.Entry, keep time.Duration) error {
	if keep <= 0 {
		return l.Abandon(ctx, false)
	}
	l.stop()
	ctx, span := startSpan(context.WithoutCancel(ctx), "redis.settle")
	a := &entryWrite{namespace: l.namespace, entry: l.entry, token: l.token, meta: l.s.codec.encodeMeta(l.entry, e), keep: keep, replaceAbove: l.maxHeight}
	if e.ETag != l.storedETag {
		a.body = l.s.codec.encodeBody(e.Body)
	}
	reply, err := l.s.writeBatched(ctx, a)
	if reply == "body" { // another replica stored other content
		a.body = l.s.codec.encodeBody(e.Body)
		reply, err = l.s.writeBatched(ctx, a)
	}
	if l.shard != "" {
		l.publishResult(ctx, a, reply, err)
	}
	endSpan(span, reply, err)
	return err
}

// Abandon implements [cache.Lease].
func (l *lease) Abandon(ctx context.Context, again bool) error {
	l.stop()
	if !l.held {
		return nil
	}
	mark := "-"
	if again {
		mark = "+"
	}
	reply, err := l.s.writeBatched(context.WithoutCancel(ctx), &entryWrite{namespace: l.namespace, entry: l.entry, token: l.token, body: []byte(mark)})
	if reply == mark && l.shard != "" {
		l.publish(ctx, mark+l.key)
	}
	return err
}

func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return upstream.StartSpanOf(ctx, "tipcache/cache/redis", name)
}

// endSpan ends a lease's span with the reply of Redis.
func endSpan(span trace.Span, reply string, err error) {
	span.SetAttributes(attribute.String("tipcache.reply", reply))
	upstream.EndSpan(span, err)
}
