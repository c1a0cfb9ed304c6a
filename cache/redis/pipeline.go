package redis

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A command is sent at once, with any that wait, if fewer round trips are active than there are processors. Otherwise
// it waits until a round trip ends, and is then sent with others, up to maxBatch in all: a round trip for many commands
// costs little more than one for a single command.
//
// A batched command waits while any round trip is active, unless the newest began more than batchWait ago. A background
// command waits for the next round trip, or starts one when it is the backgroundBatch-th that waits, or has waited for
// backgroundWait.
const (
	maxBatch        = 32
	backgroundBatch = 16
	batchWait       = 5 * time.Millisecond
	backgroundWait  = 2 * time.Millisecond
)

// A pipeline combines the commands of concurrent callers for one Redis. Each node of a Cluster has its own, because a round
// trip to several nodes would be as slow as the slowest and fail with it. Batches of writes (writes.go), Save, Load and all
// that Store.do sends are round trips of their own and bypass it.
type pipeline struct {
	mu      sync.Mutex
	active  int        // round trips
	started time.Time  // start of the newest round trip
	waiting []*command // in order of arrival
}

// A command is one caller's request to Redis. The caller waits for ready unless begin starts the command.
type command struct {
	// send sends the Redis commands, or adds them to a pipeline, and returns the last of them. If that has no reply,
	// the command failed.
	send       func(ctx context.Context, to redis.Cmdable) redis.Cmder
	key        string    // determines the hash slot
	single     bool      // send sends one Redis command
	background bool      // no caller waits
	batched    bool      // waits for a round trip that began at most batchWait ago, to be sent with others
	due        time.Time // deadline of the reply
	last       redis.Cmder
	err        error
	ready      chan []*command // receives the commands to send, including this one, or nil when it is done
}

// begin returns the commands to send now, including c, or nil if c must wait for c.ready.
func (p *pipeline) begin(c *command) []*command {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := runtime.GOMAXPROCS(0)
	if c.batched && time.Since(p.started) < batchWait {
		most = 1
	}
	if p.active < most && (!c.background || len(p.waiting) >= backgroundBatch-1) {
		p.active++
		return p.next(c)
	}
	c.ready = make(chan []*command, 1)
	if p.waiting = append(p.waiting, c); c.background {
		time.AfterFunc(backgroundWait, func() { p.beginWaiting(c) })
	}
	return nil
}

// beginWaiting starts a round trip if c still waits, unless too many are active: the end of one then starts the next.
func (p *pipeline) beginWaiting(c *command) {
	p.mu.Lock()
	begins := p.active < runtime.GOMAXPROCS(0) && slices.Contains(p.waiting, c)
	if begins {
		p.active++
	}
	p.mu.Unlock()
	if begins {
		p.end()
	}
}

// end starts a round trip of the commands that have waited longest in place of the one that ended.
func (p *pipeline) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		p.active--
		return
	}
	next := p.next()
	next[0].ready <- next
}

// next removes the commands that have waited longest, and appends newer ones. The caller must hold the lock.
func (p *pipeline) next(newer ...*command) []*command {
	p.started = time.Now()
	n := min(len(p.waiting), maxBatch-len(newer))
	next := slices.Concat(p.waiting[:n], newer)
	p.waiting = slices.Delete(p.waiting, 0, n)
	return next
}

// pipe runs a command, alone or in one pipeline with commands of other callers, usually within twice
// Options.Timeout.
func (s *Store) pipe(ctx context.Context, c *command) error {
	c.due = time.Now().Add(2 * s.o.Timeout)
	p := s.pipelineFor(ctx, c.key)
	batch := p.begin(c)
	if batch == nil {
		batch = <-c.ready
	}
	if batch != nil {
		s.runBatch(ctx, p, batch)
	}
	return c.err
}

// pipelineFor returns the pipeline to the node that has a key. Before a Cluster has replied once it returns the common
// one, because looking up the node would wait without a breaker or deadline.
func (s *Store) pipelineFor(ctx context.Context, key string) *pipeline {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok || !s.answered.Load() {
		return &s.pipeline
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return &s.pipeline // its commands fail the same way
	}
	address := node.Options().Addr
	p, ok := s.nodes.Load(address)
	if !ok {
		p, _ = s.nodes.LoadOrStore(address, &pipeline{})
	}
	return p.(*pipeline) //nolint:forcetypeassert // there are no others
}

// runBatch sends commands in one round trip and wakes their callers. Its deadline is Options.Timeout, or the newest
// command's if that is earlier: after a stall the oldest may have no time left. It ignores the cancelation of ctx,
// which belongs to one caller.
func (s *Store) runBatch(ctx context.Context, p *pipeline, batch []*command) {
	defer p.end()
	due := time.Now().Add(s.o.Timeout)
	if newest := batch[len(batch)-1]; newest.due.Before(due) {
		due = newest.due
	}
	_ = s.roundTrip(context.WithoutCancel(ctx), due, batch) // each command has the error
	for _, c := range batch {
		if c.ready != nil {
			c.ready <- nil
		}
	}
}

// roundTrip sends all commands, at least one, in one round trip.
func (s *Store) roundTrip(ctx context.Context, due time.Time, batch []*command) error {
	err := s.doUntil(ctx, due, func(ctx context.Context) error {
		if c := batch[0]; len(batch) == 1 && c.single {
			c.last = c.send(ctx, s.rdb)
			return failureOf(c.last)
		}
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range batch {
				c.last = c.send(ctx, p)
			}
			return nil
		})
		for _, c := range batch { // err may be the reply to another command: look for the connection error behind it
			if err = connectionError(err); err == nil {
				err = failureOf(c.last)
			}
		}
		return connectionError(err)
	})
	if err == nil && !s.answered.Load() {
		s.answered.Store(true)
	}
	for _, c := range batch {
		c.err = err
	}
	return err
}

// connectionError returns err unless it is a reply that shows that Redis works.
func connectionError(err error) error {
	if isAnswer(err) {
		return nil
	}
	return err
}

// failureOf returns the connection error of a command that was sent. It includes a denied read of an entry.
func failureOf(sent redis.Cmder) error {
	err := sent.Err()
	if _, isRead := sent.(*redis.SliceCmd); isRead && redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("%w: %w", errNoReads, err)
	}
	return connectionError(err)
}
