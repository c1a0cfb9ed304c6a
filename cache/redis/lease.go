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
	s         *Store
	key       string
	namespace string
	entry     string // the entry's key in the store
	shard     string // the channel for messages in a Cluster, "" elsewhere: then scripts send them, and meet
	token     string
	most      int64  // entries above this height are replaced; 0: there is no such height
	held      bool   // it is ours, or may be: the reply was lost
	seen      string // ETag of the entry in the store, "" for none
	stop      func() // ends the renewal
}

// NewLease implements [cache.Shared]. What this replica settled of the key before has to be in the
// store before the lease is asked for.
func (s *Store) NewLease(namespace, key string, most int64) cache.Lease {
	entry := entryKey(namespace, key)
	s.settles.hurry(entry)
	l := &lease{s: s, namespace: namespace, key: key, entry: entry, most: most, token: s.newToken(entry), stop: func() {}}
	if s.cluster {
		l.shard = shardOf(namespace, key)
	}
	return l
}

func (l *lease) keys() []string { return []string{l.entry, leaseKey(l.entry)} }

// Acquire implements [cache.Lease]. A corrupt entry is removed, and the lease
// asked for once more.
func (l *lease) Acquire(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	ctx, span := startSpan(ctx, "redis.acquire")
	held := l.held
	defer func() {
		if l.held != held {
			l.s.settles.hold(l.entry, l.held)
		}
		endSpan(span, stateNames[reply.State], err)
	}()
	reply, err = l.take(ctx, judged)
	told := reply.State == cache.LeaseBusy && l.shard == "" // that a caller waits
	if err == nil && reply.State == 0 {
		reply, err = l.acquireFrom(ctx, judged, "")
	}
	if errors.Is(err, errCorrupt) {
		l.s.unreadable(l.entry, err)
		if err = l.s.do(ctx, func(ctx context.Context) error { return l.s.rdb.Del(ctx, l.entry).Err() }); err == nil {
			reply, err = l.acquireFrom(ctx, nil, "")
		}
	}
	switch {
	case err != nil:
		return cache.LeaseReply{}, err
	case reply.State == cache.LeaseBusy && !told && !cache.Ahead(ctx):
		l.tell(ctx, wantMark+l.key) // if it is not heard the holder settles it soon
	}
	return reply, nil
}

// take acquires the lease of an entry that is as the caller knows it, or finds that another replica has
// it. That is so nearly always, and costs Redis half of what acquireScript does, which has to say what
// is the case otherwise (acquire.go): then the state is 0. A read ahead needs not know more than that
// the lease is not free.
func (l *lease) take(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	var free *redis.StatusCmd
	var stored *redis.StringCmd
	err = l.s.ask(ctx, &operation{key: l.entry, gathers: true, patient: cache.Ahead(ctx), send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
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
		l.s.noteWrite(none)
		l.s.refused(none)
		return reply, none
	}
	before, granted := l.held, none == nil // before: with an entry that was not enough, perhaps
	l.held, l.seen = before || granted, ""
	known := errors.Is(stored.Err(), redis.Nil)
	if judged != nil && strings.HasPrefix(stored.Val(), string(version(judged))) {
		known, l.seen = true, judged.ETag
	}
	switch {
	case granted && known:
		reply.State = cache.LeaseGranted
	case !granted && !before && cache.Ahead(ctx):
		reply.State = cache.LeaseBusy
	case known:
		return l.meet(ctx)
	}
	return reply, nil
}

// meet looks at the lease that take has found, and tells that a caller waits, but in a Cluster. The lease
// is ours where the reply to a first try was lost.
func (l *lease) meet(ctx context.Context) (reply cache.LeaseReply, err error) {
	var holder *redis.StringCmd
	var left *redis.DurationCmd
	told := &redis.IntCmd{}
	err = l.s.ask(ctx, &operation{key: l.entry, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		holder, left = to.Get(ctx, leaseKey(l.entry)), to.PTTL(ctx, leaseKey(l.entry))
		if l.shard != "" {
			return left
		}
		told = to.Publish(ctx, channelOf(l.namespace), wantMark+l.key)
		return told
	}})
	if err != nil {
		return reply, err
	}
	if told.Err() != nil {
		l.s.refused(told.Err())
	}
	if l.held = holder.Val() == l.token; l.held {
		reply.State = cache.LeaseGranted
	} else if left.Val() > 0 && left.Val() <= l.s.o.Lease && l.s.believe(leaseKey(l.entry), holder.Val()) == nil {
		reply.State, reply.Left = cache.LeaseBusy, left.Val()
	}
	return reply, nil
}

// wantMark begins a message which says that a caller waits for the holder of the lease of the key
// that follows.
const wantMark = "+\x00"

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

// Publish implements [cache.Lease]. What has expired by now is not stored.
func (l *lease) Publish(ctx context.Context, e *cache.Entry, keep time.Duration) error {
	if keep <= 0 {
		return l.Abandon(ctx, false)
	}
	l.stop()
	ctx, span := startSpan(context.WithoutCancel(ctx), "redis.settle")
	a := &answer{namespace: l.namespace, entry: l.entry, token: l.token, meta: l.s.codec.encodeMeta(l.entry, e), keep: keep, most: l.most}
	if e.ETag != l.seen {
		a.body = l.s.codec.encodeBody(e.Body)
	}
	reply, err := l.s.store(ctx, a)
	if reply == "body" { // another content has come between
		a.body = l.s.codec.encodeBody(e.Body)
		reply, err = l.s.store(ctx, a)
	}
	if l.shard != "" {
		l.tellSettled(ctx, a, reply, err)
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
	reply, err := l.s.store(context.WithoutCancel(ctx), &answer{namespace: l.namespace, entry: l.entry, token: l.token, body: []byte(mark)})
	if reply == mark && l.shard != "" {
		l.tell(ctx, mark+l.key)
	}
	return err
}

func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return upstream.StartSpanOf(ctx, "tipcache/cache/redis", name)
}

// endSpan says of a lease's span what the store replied.
func endSpan(span trace.Span, reply string, err error) {
	span.SetAttributes(attribute.String("tipcache.reply", reply))
	upstream.EndSpan(span, err)
}
