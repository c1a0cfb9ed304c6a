package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// lease implements [cache.Lease].
type lease struct {
	s       *Store
	key     string
	entry   string // the entry's key in the store
	channel string
	token   string
	most    int64  // entries above this height are replaced; 0: there is no such height
	held    bool   // it is ours, or may be: the reply was lost
	seen    string // ETag of the entry in the store, "" for none
	stop    func() // ends the renewal
}

// NewLease implements [cache.Shared].
func (s *Store) NewLease(namespace, key string, most int64) cache.Lease {
	return &lease{
		s: s, key: key, entry: entryKey(namespace, key), channel: channelOf(namespace), most: most,
		token: s.newToken(entryKey(namespace, key)), stop: func() {},
	}
}

// newToken names a holder of the lease of an entry. With a seal key it proves that a
// replica began to hold the lease, and when.
func (s *Store) newToken(entry string) string {
	text := fmt.Appendf(nil, "%s %d", rand.Text(), s.o.Now().UnixMilli())
	return string(s.codec.seal(leaseKey(entry), text))
}

// believe gives an error for a holder that is no replica with our seal key, or began
// to hold the lease longer ago than any flight: another process may have copied it.
func (s *Store) believe(at, holder string) error {
	if len(s.o.SealKey) == 0 {
		return nil
	}
	text, err := s.codec.open(at, holder)
	if err != nil {
		return err
	}
	_, began, _ := strings.Cut(text, " ")
	if ms, err := strconv.ParseInt(began, 10, 64); err != nil || s.o.Now().Sub(time.UnixMilli(ms)).Abs() > apart {
		return fmt.Errorf("%w: a lease of another time", errCorrupt)
	}
	return nil
}

func (l *lease) keys() []string { return []string{l.entry, leaseKey(l.entry)} }

// Acquire implements [cache.Lease]. A corrupt entry is removed, and the lease
// asked for once more.
func (l *lease) Acquire(ctx context.Context, judged *cache.Entry) (reply cache.LeaseReply, err error) {
	ctx, span := startSpan(ctx, "redis.acquire")
	defer func() { endSpan(span, stateNames[reply.State], err) }()
	reply, err = l.acquireFrom(ctx, judged, "")
	if !errors.Is(err, errCorrupt) {
		return reply, err
	}
	l.s.unreadable(l.entry, err)
	err = l.s.do(ctx, func(ctx context.Context) error { return l.s.rdb.Del(ctx, l.entry).Err() })
	if err != nil {
		return cache.LeaseReply{}, err
	}
	return l.acquireFrom(ctx, nil, "")
}

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
		l.held = !isReply(err) && kindOf(err) != unavailable
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
	ctx, span := startSpan(ctx, "redis.settle")
	meta, body := l.s.codec.encodeMeta(l.entry, e), []byte(nil)
	if e.ETag != l.seen {
		body = l.s.codec.encodeBody(e.Body)
	}
	reply, err := l.write(ctx, meta, body, keep)
	if reply == "body" { // another content has come between
		reply, err = l.write(ctx, meta, l.s.codec.encodeBody(e.Body), keep)
	}
	endSpan(span, reply, err)
	return err
}

func (l *lease) write(ctx context.Context, meta, body []byte, keep time.Duration) (reply string, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { // counted
		reply, err = l.s.settle.Run(ctx, l.s.rdb, l.keys(),
			meta, body, keep.Milliseconds(), l.token, l.channel, l.key, l.most, maxTold).Text()
		return err
	})
	return reply, err
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
	return l.do(ctx, func(ctx context.Context) error { // counted
		return l.s.abandon.Run(ctx, l.s.rdb, l.keys()[1:], l.token, l.channel, mark+l.key).Err()
	})
}

// do runs an operation that is due even when the flight is over.
func (l *lease) do(ctx context.Context, op func(context.Context) error) error {
	return l.s.do(context.WithoutCancel(ctx), op)
}

func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return upstream.StartSpanOf(ctx, "tipcache/cache/redis", name)
}

// endSpan says of a lease's span what the store replied.
func endSpan(span trace.Span, reply string, err error) {
	span.SetAttributes(attribute.String("tipcache.reply", reply))
	upstream.EndSpan(span, err)
}
