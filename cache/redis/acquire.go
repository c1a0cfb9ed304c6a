package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

var errForeignLease = errors.New("redis: lease repeatedly acquired by a writer without our key")

// acquireFrom acquires the lease with acquireScript. If distrusted is not empty, it takes the lease from that holder.
// If a process without our key holds the lease, it tries once more and takes the lease from that process. If another
// such process holds it by then, it returns an error, and the caller reads without a lease.
func (l *lease) acquireFrom(ctx context.Context, judged *cache.Entry, distrusted string) (cache.LeaseReply, error) {
	reply, holder, err := l.acquireOnce(ctx, judged, distrusted)
	if err != nil || reply.State != cache.LeaseBusy {
		return reply, err
	}
	err = l.s.verifyHolder(leaseKey(l.entry), holder)
	switch {
	case err == nil:
		return reply, nil
	case distrusted != "" || holder == "":
		return cache.LeaseReply{}, errForeignLease
	}
	l.s.reportCorrupt(leaseKey(l.entry), err)
	return l.acquireFrom(ctx, judged, holder)
}

func (l *lease) acquireOnce(ctx context.Context, judged *cache.Entry, distrusted string) (_ cache.LeaseReply, holder string, _ error) {
	var known []byte
	if judged != nil {
		known = version(judged)
	}
	var channel, message string
	if !l.ahead {
		channel, message = channelOf(l.namespace), waiterMark+l.key
	}
	keys, args := l.keys(), []any{known, l.token, l.s.o.Lease.Milliseconds(), distrusted, channel, message}
	var reply *redis.Cmd
	err := l.s.pipe(ctx, &command{key: l.entry, single: true, batched: true, background: l.ahead, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		reply = l.s.acquire.EvalSha(ctx, to, keys, args...)
		return reply
	}})
	if err == nil && redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") { // a pipeline cannot retry with the text of the script
		err = l.s.do(ctx, func(ctx context.Context) error {
			reply = l.s.acquire.Eval(ctx, l.s.rdb, keys, args...)
			return connectionError(reply.Err())
		})
	}
	if err != nil {
		l.held = l.held || kindOf(err) != unavailable
		return cache.LeaseReply{}, "", err
	}
	values, err := reply.Slice()
	if isReply(err) {
		l.s.recordWrite(err)
		l.s.reportFailure(err)
		return cache.LeaseReply{}, "", err
	}
	return l.parse(values, judged)
}

// stateNames are the states that acquireScript returns, except foreign: then the lease was granted over a foreign value.
var stateNames = [...]string{cache.LeaseBusy: "busy", cache.LeaseGranted: "granted", cache.LeaseChanged: "changed"}

// parse parses the reply of acquireScript.
func (l *lease) parse(values []any, judged *cache.Entry) (reply cache.LeaseReply, holder string, err error) {
	if len(values) != 5 {
		return reply, "", fmt.Errorf("redis: the script replied %d values, not 5", len(values))
	}
	word, _ := values[0].(string)
	if word == "foreign" {
		l.s.count(foreign)
		word = stateNames[cache.LeaseGranted]
	}
	at := slices.Index(stateNames[:], word)
	if at <= 0 {
		return reply, "", fmt.Errorf("redis: the script replied %q", word)
	}
	reply.State = cache.LeaseState(at)
	left, _ := values[3].(int64)
	reply.Left = time.Duration(left) * time.Millisecond // at most l.s.o.Lease
	l.held, l.storedETag = reply.State == cache.LeaseGranted, ""
	m, stored := values[1].(string)
	switch b, _ := values[2].(string); {
	case reply.State == cache.LeaseChanged:
		reply.Entry, err = l.s.codec.decode(l.entry, m, b, judged)
	case stored && judged != nil:
		l.storedETag = judged.ETag
	}
	holder, _ = values[4].(string)
	return reply, holder, err
}
