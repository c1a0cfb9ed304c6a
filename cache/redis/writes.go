package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A write costs Redis little compared to waking up, starting a script and publishing. So a write is sent at once if
// none was sent for batchInterval, and otherwise in a batch at the end of that interval. The batch is sent earlier if
// it is full or a caller waits for one of its entries, here or at another replica. In a Cluster each write is a script
// of its own, and a batch is one pipeline to each node.
const (
	batchInterval = 100 * time.Millisecond
	maxBatchBytes = 64 << 10
)

// An entryWrite stores an entry, or releases a lease without one.
type entryWrite struct {
	namespace, entry string
	token            string // of the lease, or ""
	meta, body       []byte // without body, the content with the ETag stays; without meta there is no entry, and body is the mark to publish
	etag             string
	keep             time.Duration
	replaceAbove     int64 // a newer entry in Redis is replaced if its height is greater; 0 disables

	by    *command // the script
	index int      // position of the reply
}

// writeCommands returns the commands that write entries of a namespace: one script for all, or one for each if their
// hash slots differ. run is a method of s.write. Bodies up to longest bytes are published; -1 publishes nothing.
func (s *Store) writeCommands(run func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd, longest int, writes []*entryWrite) (all []*command) {
	atOnce, channel := len(writes), channelOf(writes[0].namespace)
	if longest < 0 {
		channel = ""
	}
	if s.cluster || s.hasSlots.Load() {
		atOnce = 1
	}
	before := strings.TrimSuffix(entryKey(writes[0].namespace, ""), entriesEnd)
	for some := range slices.Chunk(writes, min(atOnce, maxBatch)) {
		keys, args := make([]string, 0, 2*len(some)), make([]any, 0, 3+5*len(some))
		args = append(args, channel, longest, len(before)+1)
		c := &command{single: true}
		for i, w := range some {
			keys = append(keys, w.entry, leaseKey(w.entry))
			body := w.body
			if body == nil {
				body = []byte("= " + w.etag + " ")
			}
			args = append(args, w.meta, body, w.keep.Milliseconds(), w.token, w.replaceAbove)
			w.by, w.index = c, i
		}
		c.send = func(ctx context.Context, to redis.Cmdable) redis.Cmder { return run(ctx, to, keys, args...) }
		all = append(all, c)
	}
	return all
}

// reply returns the reply of writeScript for w. If Redis replied, it ignores the pipeline's error: the client gives that error
// to all commands, even if another node of a Cluster caused it.
func (w *entryWrite) reply() (word string, err error) {
	if w.by.last == nil {
		return "", w.by.err
	}
	ran := w.by.last.(*redis.Cmd) //nolint:forcetypeassert // writeCommands sends no other command
	replies, _ := ran.Val().([]any)
	if w.index >= len(replies) {
		return "", cmp.Or(w.by.err, ran.Err(), fmt.Errorf("redis: the script replied %v", ran.Val()))
	}
	word, _ = replies[w.index].(string)
	if text, ok := strings.CutPrefix(word, "!"); ok {
		return "", refusal(text)
	}
	return word, nil
}

// A refusal is the error reply to a write in a script.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// A writeBatcher collects writes.
type writeBatcher struct {
	every time.Duration

	mu   sync.Mutex
	last time.Time       // when a batch was closed
	next *writeBatch     // nil if empty
	held map[string]bool // entries whose leases this replica holds or requests; true if a caller waits
}

// A writeBatch is a set of writes that are sent together. The caller of the first write sends it.
type writeBatch struct {
	writes []*entryWrite
	bytes  int
	due    time.Time
	full   chan struct{} // closed when the batch is complete
	done   chan struct{} // closed after the reply
}

// setHeld records whether this replica holds or requests the lease of an entry.
func (g *writeBatcher) setHeld(entry string, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !held {
		delete(g.held, entry)
	} else if _, known := g.held[entry]; !known { // otherwise a caller may wait already
		g.held[entry] = false
	}
}

// flush sends the write of an entry at once, because a caller waits for it. If the write does not exist yet, add sends
// it at once.
func (g *writeBatcher) flush(entry string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.held[entry]; ok {
		g.held[entry] = true
	}
	if g.next != nil && slices.ContainsFunc(g.next.writes, func(w *entryWrite) bool { return w.entry == entry }) {
		g.close()
	}
}

// add adds a write to the batch, and reports whether it is the first. The caller of the first must wait until the batch
// is due.
func (g *writeBatcher) add(w *entryWrite) (b *writeBatch, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil && g.next.writes[0].namespace != w.namespace {
		g.close()
	}
	if first = g.next == nil; first {
		g.next = &writeBatch{due: g.last.Add(g.every), full: make(chan struct{}), done: make(chan struct{})}
	}
	b = g.next
	b.writes, b.bytes = append(b.writes, w), b.bytes+len(w.meta)+len(w.body)
	if g.held[w.entry] || time.Until(b.due) <= 0 || len(b.writes) == maxBatch || b.bytes >= maxBatchBytes {
		g.close()
	}
	delete(g.held, w.entry)
	return b, first
}

// close closes the batch. The caller must hold the lock.
func (g *writeBatcher) close() {
	close(g.next.full)
	g.next, g.last = nil, time.Now()
}

// waitFull waits until b is closed, or closes it when it is due.
func (g *writeBatcher) waitFull(b *writeBatch) {
	pause := time.NewTimer(time.Until(b.due))
	defer pause.Stop()
	select {
	case <-b.full:
	case <-pause.C:
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.next == b {
			g.close()
		}
	}
}

// writeBatched writes w with others, and returns the reply of writeScript.
func (s *Store) writeBatched(ctx context.Context, w *entryWrite) (word string, err error) {
	b, first := s.batcher.add(w)
	if first {
		s.batcher.waitFull(b)
		_ = s.roundTrip(ctx, time.Now().Add(s.o.Timeout), s.writeCommands(s.write.EvalSha, maxPublished, b.writes)) // each write has the error
		close(b.done)
	} else {
		<-b.done
	}
	return s.replyTo(ctx, w, maxPublished)
}

// replyTo returns the reply of writeScript to a write that was sent. It first sends the write again, alone and with the
// text of the script, if Redis does not have the script or refuses several hash slots: a pipeline cannot retry.
func (s *Store) replyTo(ctx context.Context, w *entryWrite, longest int) (word string, err error) {
	word, err = w.reply()
	if s.isCrossSlot(err) || redis.HasErrorPrefix(err, "NOSCRIPT") {
		_ = s.roundTrip(ctx, time.Now().Add(s.o.Timeout), s.writeCommands(s.write.Eval, longest, []*entryWrite{w}))
		word, err = w.reply()
	}
	if err != nil || len(w.meta) > 0 { // releasing a lease needs no memory
		s.recordWrite(err)
	}
	if isReply(err) {
		s.reportFailure(err)
	}
	return word, err
}

// isCrossSlot reports whether a script was refused because its keys are in different hash slots, and records that they
// are.
func (s *Store) isCrossSlot(err error) bool {
	crossed := redis.HasErrorPrefix(err, "CROSSSLOT")
	if crossed {
		s.hasSlots.Store(true)
	}
	return crossed
}
