package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

// Acquire implements [cache.Lease]. A corrupt entry is removed, and the lease
// asked for once more.
func (l *lease) Acquire(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	ctx, span := startSpan(ctx, "redis.acquire")
	defer func() { endSpan(span, stateNames[reply.State], err) }()
	reply, err = l.take(ctx, judged)
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
	case reply.State == cache.LeaseGranted:
		l.s.settles.hold(l.entry)
	case reply.State == cache.LeaseBusy && !cache.Ahead(ctx):
		l.want(ctx)
	}
	return reply, nil
}

// take acquires a lease that no replica has of an entry that is as the caller knows it. That is so
// nearly always, and costs Redis half of what acquireScript does, which has to say what is the case
// otherwise: then the state is 0. A read ahead needs not know more than that the lease is not
// free. An entry that is of no block is renewed by other replicas without a message that tells
// of it, and so has seldom stayed as it was.
func (l *lease) take(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	if judged != nil && judged.Height == 0 {
		return reply, nil
	}
	var free *redis.StatusCmd
	var stored *redis.StringCmd
	err = l.s.ask(ctx, &operation{send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		free = to.SetArgs(ctx, leaseKey(l.entry), l.token, redis.SetArgs{Mode: "NX", TTL: l.s.o.Lease})
		stored = to.HGet(ctx, l.entry, "m")
		return stored
	}})
	if err != nil {
		l.held = kindOf(err) != unavailable
		return reply, err
	}
	switch err := free.Err(); {
	case errors.Is(err, redis.Nil) && cache.Ahead(ctx):
		return cache.LeaseReply{State: cache.LeaseBusy}, nil
	case errors.Is(err, redis.Nil):
		return reply, nil
	case err != nil:
		l.s.refused(err)
		return reply, err
	}
	l.held, l.seen = true, ""
	switch m, err := stored.Result(); {
	case judged != nil && strings.HasPrefix(m, string(version(judged))):
		l.seen = judged.ETag
	case !errors.Is(err, redis.Nil):
		return reply, nil
	}
	return cache.LeaseReply{State: cache.LeaseGranted}, nil
}

// wantMark begins the key of a message which says that a caller waits for what the holder of the
// lease settles. Earlier versions take it for a key that no caller waits for.
const wantMark = "+\x00"

// want tells the holder of the lease that a caller waits. If it is not heard the holder settles it soon.
func (l *lease) want(ctx context.Context) { l.tell(ctx, wantMark+l.key) }

var errDoubted = errors.New("redis: the lease is taken again and again, and not by replicas with our key")

// acquireFrom takes over the lease of a holder that is not believed, and asks once
// more where it finds one. Two that come one after the other are an error: the caller
// does without a lease.
func (l *lease) acquireFrom(ctx context.Context, judged *cache.Entry, doubted string) (cache.LeaseReply, error) {
	reply, holder, err := l.acquireOnce(ctx, judged, doubted)
	if err != nil || reply.State != cache.LeaseBusy {
		return reply, err
	}
	err = l.s.believe(leaseKey(l.entry), holder)
	switch {
	case err == nil:
		return reply, nil
	case doubted != "" || holder == "":
		return cache.LeaseReply{}, errDoubted
	}
	l.s.unreadable(leaseKey(l.entry), err)
	return l.acquireFrom(ctx, judged, holder)
}

func (l *lease) acquireOnce(ctx context.Context, judged *cache.Entry, doubted string) (_ cache.LeaseReply, holder string, _ error) {
	var known []byte
	if judged != nil {
		known = version(judged)
	}
	taken := l.held
	var reply []any
	err := l.s.do(ctx, func(ctx context.Context) (err error) {
		reply, err = l.s.acquire.Run(ctx, l.s.rdb, l.keys(), known, l.token, l.s.o.Lease.Milliseconds(), doubted).Slice()
		return err
	})
	if err != nil {
		l.held = !isReply(err) && kindOf(err) != unavailable
		return cache.LeaseReply{}, "", err
	}
	r, holder, err := l.read(reply, judged)
	if taken && !l.held { // by take, and for nothing
		l.held = true
		lost := l.Abandon(ctx, true)
		l.held, err = lost != nil, errors.Join(err, lost)
	}
	return r, holder, err
}

// stateNames are the words of acquireScript for the states of a lease.
var stateNames = [...]string{cache.LeaseBusy: "busy", cache.LeaseGranted: "granted", cache.LeaseChanged: "changed"}

// read takes the reply of acquireScript apart.
func (l *lease) read(values []any, judged *cache.Entry) (reply cache.LeaseReply, holder string, err error) {
	if len(values) != 5 {
		return reply, "", fmt.Errorf("redis: the script replied %d values, not 5", len(values))
	}
	word, _ := values[0].(string)
	if word == "foreign" {
		l.s.failed(foreign)
		word = stateNames[cache.LeaseGranted]
	}
	at := slices.Index(stateNames[:], word)
	if at <= 0 {
		return reply, "", fmt.Errorf("redis: the script replied %q", word)
	}
	reply.State = cache.LeaseState(at)
	left, _ := values[3].(int64)
	reply.Left = min(time.Duration(left)*time.Millisecond, l.s.o.Lease)
	l.held, l.seen = reply.State == cache.LeaseGranted, ""
	m, stored := values[1].(string)
	switch b, _ := values[2].(string); {
	case reply.State == cache.LeaseChanged:
		reply.Entry, err = l.s.codec.decode(l.entry, m, b, judged)
	case stored && judged != nil:
		l.seen = judged.ETag
	}
	holder, _ = values[4].(string)
	return reply, holder, err
}
