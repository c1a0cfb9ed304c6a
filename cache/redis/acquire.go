package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cache"
)

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
	var reply []any
	err := l.s.do(ctx, func(ctx context.Context) (err error) {
		reply, err = l.s.acquire.Run(ctx, l.s.rdb, l.keys(), known, l.token, l.s.o.Lease.Milliseconds(), doubted).Slice()
		return err
	})
	if err != nil {
		l.s.noteWrite(err)
		l.held = l.held || !isReply(err) && kindOf(err) != unavailable
		return cache.LeaseReply{}, "", err
	}
	return l.read(reply, judged)
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
	reply.Left = time.Duration(left) * time.Millisecond // at most l.s.o.Lease
	l.held, l.seen = l.held && reply.State == cache.LeaseChanged || reply.State == cache.LeaseGranted, ""
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
