package redis

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// lease implements [cache.Lease].
type lease struct {
	s          *Store
	key        string
	namespace  string
	entry      string // Redis key of the entry
	token      string
	maxHeight  int64  // as in [cache.Shared.NewLease]
	ahead      bool   // the same
	held       bool   // this replica may hold the lease; after a lost reply it is not certain
	storedETag string // ETag of the entry in Redis, or ""
	stop       func() // ends Keep
}

// NewLease implements [cache.Shared]. It flushes an earlier write of the key, which must reach Redis before the lease
// is acquired.
func (s *Store) NewLease(namespace, key string, maxHeight int64, ahead bool) cache.Lease {
	entry := entryKey(namespace, key)
	s.batcher.flush(entry)
	l := &lease{s: s, namespace: namespace, key: key, entry: entry, maxHeight: maxHeight, ahead: ahead, token: s.newToken(entry), stop: func() {}}
	return l
}

func (l *lease) keys() []string { return []string{l.entry, leaseKey(l.entry)} }

// Acquire implements [cache.Lease]. It removes a corrupt entry and tries once more.
func (l *lease) Acquire(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	ctx, span := startSpan(ctx, "redis.acquire")
	l.s.batcher.setHeld(l.entry, true) // the message that a caller waits may arrive before the reply
	defer func() {
		l.s.batcher.setHeld(l.entry, l.held)
		endSpan(span, stateNames[reply.State], err)
	}()
	reply, err = l.acquireFrom(ctx, judged, "")
	if errors.Is(err, errCorrupt) {
		l.s.reportCorrupt(l.entry, err)
		if err = l.s.do(ctx, func(ctx context.Context) error { return l.s.rdb.Del(ctx, l.entry).Err() }); err == nil {
			reply, err = l.acquireFrom(ctx, nil, "")
		}
	}
	if err != nil {
		return cache.LeaseReply{}, err
	}
	return reply, nil
}

// waiterMark begins a message to the holder of a lease: a caller waits for it. The key follows. If the message is lost,
// the holder's batch is due soon.
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

// Publish implements [cache.Lease]. It stores the entry also if the lease is not held, because a read of Redis has failed before. It
// does not store an expired entry, or one with a body that is too long.
func (l *lease) Publish(ctx context.Context, e *cache.Entry, keep time.Duration) error {
	if keep <= 0 {
		return l.Abandon(ctx, false)
	}
	l.stop()
	ctx, span := startSpan(context.WithoutCancel(ctx), "redis.settle")
	w := &entryWrite{namespace: l.namespace, entry: l.entry, token: l.token, meta: l.s.codec.encodeMeta(l.entry, e), etag: e.ETag, keep: keep, replaceAbove: l.maxHeight}
	reply, err := "body", error(nil)
	if e.ETag == l.storedETag {
		reply, err = l.s.writeBatched(ctx, w)
	}
	if reply == "body" { // Redis has other content or none
		if w.body = l.s.codec.encodeBody(e.Body); w.body == nil {
			endSpan(span, "too long", nil)
			return l.Abandon(ctx, false)
		}
		reply, err = l.s.writeBatched(ctx, w)
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
	_, err := l.s.writeBatched(context.WithoutCancel(ctx), &entryWrite{namespace: l.namespace, entry: l.entry, token: l.token, body: []byte(mark)})
	return err
}

func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return upstream.StartSpanOf(ctx, "tipcache/cache/redis", name, trace.SpanKindInternal)
}

// endSpan ends a lease's span with the reply of Redis.
func endSpan(span trace.Span, reply string, err error) {
	span.SetAttributes(attribute.String("tipcache.reply", reply))
	upstream.EndSpan(span, err)
}
