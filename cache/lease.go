package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// lease is the right of one replica to ask the origin for a key, and the only
// way to the key's entry in the shared store.
type lease struct {
	s       *shared
	key     string
	entry   string // the entry's key in the store
	channel string
	keepFor time.Duration // expiry of the entry
	token   string
	held    bool   // it is ours, or may be: the reply was lost
	seen    string // ETag of the entry in the store, "" for none
	stop    func() // ends the renewal
}

// verdict is what the shared store says about a key.
type verdict string

const (
	enough verdict = "enough" // the entry ends the flight
	leased verdict = "leased" // the origin is ours to ask
	busy   verdict = "busy"   // another replica is asking it
)

// said is the shared store's answer.
type said struct {
	verdict verdict
	entry   *Entry        // newest entry there, nil for none
	left    time.Duration // what is left of another's lease
}

func (s *shared) newLease(namespace, key string, keep time.Duration) *lease {
	return &lease{
		s: s, key: key, entry: entryKey(namespace, key), channel: channelOf(namespace), keepFor: keep,
		token: rand.Text(), stop: func() {},
	}
}

func (l *lease) keys() []string { return []string{l.entry, l.entry + ":l"} }

// ask looks for an entry that meets the demand, and takes the lease if there is
// none and nobody has it. known is in memory already: its body is not sent again.
// A corrupt entry is removed, and asked for a second time if it stood in the way.
func (l *lease) ask(ctx context.Context, d demand, known *held) (answer said, err error) {
	ctx, span := startSpan(ctx, "redis.ask")
	defer func() { endLease(span, string(answer.verdict), err) }()
	answer, err = l.askOnce(ctx, d, known)
	if !errors.Is(err, errCorrupt) {
		return answer, err
	}
	l.s.counts.trouble(corrupt)
	l.s.log.Warn("corrupt entry in the shared store", "key", l.key, "err", err)
	err = l.s.do(ctx, func(ctx context.Context) error { return l.s.rdb.Del(ctx, l.entry).Err() })
	if err != nil || answer.verdict != enough {
		return answer, err
	}
	return l.askOnce(ctx, d, known)
}

func (l *lease) askOnce(ctx context.Context, d demand, known *held) (said, error) {
	var have *Entry
	tag := ""
	if known != nil {
		have, tag = known.entry, known.entry.ETag
	}
	var reply []any
	err := l.s.do(ctx, func(ctx context.Context) (err error) {
		reply, err = l.s.askFor.Run(ctx, l.s.rdb, l.keys(),
			d.byBlocks, d.least, d.floor, d.since, d.now, tag, l.token, l.s.expiry.Milliseconds()).Slice()
		return err
	})
	if err != nil {
		l.held = !isReply(err) && troubleOf(err) != unavailable
		return said{}, err
	}
	return l.read(reply, have)
}

// read takes the reply of askScript apart.
func (l *lease) read(reply []any, have *Entry) (said, error) {
	if len(reply) != 4 {
		return said{}, fmt.Errorf("cache: shared store replied %d values, not 4", len(reply))
	}
	word, _ := reply[0].(string)
	left, _ := reply[3].(int64)
	if word == "foreign" {
		l.s.counts.trouble(foreign)
		word = string(leased)
	}
	answer := said{verdict: verdict(word), left: time.Duration(left) * time.Millisecond}
	l.held = answer.verdict == leased
	l.seen = ""
	m, ok := reply[1].(string)
	if !ok {
		return answer, nil
	}
	b, _ := reply[2].(string)
	entry, err := l.s.codec.decode([]byte(m), []byte(b), have)
	if err != nil {
		return answer, err
	}
	answer.entry, l.seen = entry, entry.ETag
	return answer, nil
}

// keep renews the lease until it is settled or abandoned.
func (l *lease) keep(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	l.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		tick := time.NewTicker(l.s.expiry / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = l.s.do(ctx, func(ctx context.Context) error { // counted; the next tick tries again
					return l.s.keep.Run(ctx, l.s.rdb, l.keys()[1:], l.token, l.s.expiry.Milliseconds()).Err()
				})
			case <-ctx.Done():
				return
			}
		}
	}()
}

// settle stores what the origin gave, gives the lease back and wakes those who
// wait for it, also when the flight's time is over. Where that fails, they wait
// until the lease expires.
func (l *lease) settle(ctx context.Context, e *Entry) {
	if l == nil {
		return
	}
	keep := l.s.keepFor(e, l.keepFor)
	if keep <= 0 {
		return
	}
	l.stop()
	l.held = false
	ctx, span := startSpan(ctx, "redis.settle")
	meta, body := l.s.codec.encodeMeta(e), []byte(nil)
	if e.ETag != l.seen {
		body = l.s.codec.encodeBody(e.Body)
	}
	reply, err := l.write(ctx, meta, body, keep)
	if reply == "body" { // another content has come between
		reply, err = l.write(ctx, meta, l.s.codec.encodeBody(e.Body), keep)
	}
	endLease(span, reply, err)
}

func (l *lease) write(ctx context.Context, meta, body []byte, keep time.Duration) (reply string, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { // counted
		reply, err = l.s.settle.Run(ctx, l.s.rdb, l.keys(),
			meta, body, keep.Milliseconds(), l.token, l.channel, l.key).Text()
		return err
	})
	return reply, err
}

// abandon gives the lease back if it has not been settled. Those who wait for it
// then ask the origin themselves, rather than fail one after the other.
func (l *lease) abandon(ctx context.Context) {
	if l == nil {
		return
	}
	l.stop()
	if !l.held {
		return
	}
	_ = l.do(ctx, func(ctx context.Context) error { // counted
		return l.s.abandon.Run(ctx, l.s.rdb, l.keys()[1:], l.token, l.channel, l.key).Err()
	})
}

// do runs an operation that is due even when the flight is over.
func (l *lease) do(ctx context.Context, op func(context.Context) error) error {
	return l.s.do(context.WithoutCancel(ctx), op)
}
