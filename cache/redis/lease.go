package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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
	channel string // for messages to all replicas
	shard   string // that in a Cluster, "" elsewhere: then scripts send them
	token   string
	most    int64  // entries above this height are replaced; 0: there is no such height
	held    bool   // it is ours, or may be: the reply was lost
	seen    string // ETag of the entry in the store, "" for none
	stop    func() // ends the renewal
}

// NewLease implements [cache.Shared]. What this replica settled of the key before has to be in the
// store before the lease is asked for.
func (s *Store) NewLease(namespace, key string, most int64) cache.Lease {
	entry := entryKey(namespace, key)
	s.settles.hurry(entry)
	l := &lease{
		s: s, key: key, entry: entry, channel: channelOf(namespace), most: most,
		token: s.newToken(entry), stop: func() {},
	}
	if s.cluster {
		l.shard = shardOf(namespace, key)
	}
	return l
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

func (l *lease) write(ctx context.Context, meta, body []byte, keep time.Duration) (string, error) {
	args := []any{meta, body, keep.Milliseconds(), l.token, l.scriptChannel(), l.key, l.most, renewalHead(l.key, meta), maxTold}
	var settled *redis.Cmd
	err := l.s.settleWith(context.WithoutCancel(ctx), &operation{send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		settled = to.EvalSha(ctx, l.s.settle.Hash(), l.keys(), args...)
		return settled
	}, single: true}, l.entry, len(meta)+len(body))
	if err != nil {
		return "", err
	}
	reply, refusal := settled.Text()
	switch {
	case redis.HasErrorPrefix(refusal, "NOSCRIPT"): // a pipeline has no second try with the script's text
		refusal = l.do(ctx, func(ctx context.Context) (err error) { // counted
			reply, err = l.s.settle.Eval(ctx, l.s.rdb, l.keys(), args...).Text()
			return err
		})
	case refusal != nil:
		l.s.refused(refusal)
	}
	l.tellSettled(ctx, reply, meta, body, refusal)
	return reply, refusal
}

// Abandon implements [cache.Lease].
func (l *lease) Abandon(ctx context.Context, again bool) error {
	l.stop()
	if !l.held {
		return nil
	}
	l.s.settles.drop(l.entry)
	mark := "-"
	if again {
		mark = "+"
	}
	given := false
	err := l.do(ctx, func(ctx context.Context) (err error) { // counted
		given, err = l.s.abandon.Run(ctx, l.s.rdb, l.keys()[1:], l.token, l.scriptChannel(), mark+l.key).Bool()
		return err
	})
	if given && l.shard != "" {
		l.tell(ctx, mark+l.key)
	}
	return err
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
