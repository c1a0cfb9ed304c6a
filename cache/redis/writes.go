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

// What replicas settle costs Redis little beside being woken, beginning a script and writing to each
// of them. So an answer is settled at once where none was for settleEvery, and those that come within
// that time of the last go together at its end. They go earlier where a caller waits for one of them,
// here or at another replica, or where there are enough. In a Cluster each answer is a script of its own,
// of the node that has it, and those that go together are one pipeline to each node.
const (
	settleEvery = 100 * time.Millisecond
	soon        = 4        // the part of settleEvery before its end in which another exchange takes them along
	maxSettled  = 64 << 10 // bytes that go together
)

// An answer is an entry on its way to Redis, or a lease that is given back without one.
type answer struct {
	namespace, entry string
	token            string // of the lease; "" for none
	meta, body       []byte // of the entry: no body means that of the one in the store; else none, and a mark
	keep             time.Duration
	most             int64 // an entry above this height is replaced; 0: there is no such height

	by    *operation // of the script that stores it, valid once that is done
	index int        // of its reply among those of the script
}

// settleBy gives the operations that store answers of a namespace: one script for all, and where they
// are in different hash slots of a cluster, one for each. run is a method of s.settle. Bodies
// of at most so many bytes are told, -1 for no renewals.
func (s *Store) settleBy(run func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd, longest int, answers []*answer) (all []*operation) {
	together, channel := len(answers), channelOf(answers[0].namespace)
	if s.cluster {
		channel = "" // a script cannot publish to a shard
	}
	if s.cluster || s.slotted.Load() {
		together = 1
	}
	before, _ := aroundKey(answers[0].namespace)
	for some := range slices.Chunk(answers, min(together, maxTogether)) {
		keys, args := make([]string, 0, 2*len(some)), make([]any, 0, 3+5*len(some))
		args = append(args, channel, longest, len(before)+1)
		o := &operation{single: true}
		for i, a := range some {
			keys = append(keys, a.entry, leaseKey(a.entry))
			args = append(args, a.meta, a.body, a.keep.Milliseconds(), a.token, a.most)
			a.by, a.index = o, i
		}
		o.send = func(ctx context.Context, to redis.Cmdable) redis.Cmder { return run(ctx, to, keys, args...) }
		all = append(all, o)
	}
	return all
}

// reply is what settleScript replied to an answer. It counts whatever the error: that may be of another
// node of a Cluster, which has not answered, and the client gives it to all commands of a pipeline.
func (a *answer) reply() (word string, err error) {
	if a.by.last == nil {
		return "", a.by.err
	}
	ran := a.by.last.(*redis.Cmd) //nolint:forcetypeassert // settleBy sends no other command
	replies, _ := ran.Val().([]any)
	if a.index >= len(replies) {
		return "", cmp.Or(a.by.err, ran.Err(), fmt.Errorf("redis: the script replied %v", ran.Val()))
	}
	word, _ = replies[a.index].(string)
	if text, ok := strings.CutPrefix(word, "!"); ok {
		return "", refusal(text)
	}
	return word, nil
}

// A refusal is the error with which Redis answered a write of a script.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// settles are the answers that are gathered.
type settles struct {
	every time.Duration

	mu   sync.Mutex
	last time.Time       // when some went
	next *settlement     // those that are gathered, nil for none
	held map[string]bool // the entries whose leases are held here: whether another replica waits for one
}

// A settlement are answers that go together, with the caller of the first or, but in a Cluster, with an
// exchange that begins shortly before they are due.
type settlement struct {
	answers []*answer
	bytes   int
	due     time.Time
	alien   bool          // an exchange has them; valid once full is closed
	full    chan struct{} // closed when nothing more is added
	done    chan struct{} // closed when Redis has answered
}

// hold notes whether the lease of an entry is held here from now on.
func (g *settles) hold(entry string, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if held {
		g.held[entry] = false
	} else {
		delete(g.held, entry)
	}
}

// hurry has what is settled of an entry go at once: a caller waits for it. That is as true of an
// answer that has not come yet.
func (g *settles) hurry(entry string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.held[entry]; ok {
		g.held[entry] = true
	}
	if g.next != nil && slices.ContainsFunc(g.next.answers, func(a *answer) bool { return a.entry == entry }) {
		g.close()
	}
}

// add adds an answer to the batch, and reports whether it is the first. The caller
// with the first one waits until the batch is due.
func (g *settles) add(a *answer) (b *settlement, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil && g.next.answers[0].namespace != a.namespace {
		g.close()
	}
	if first = g.next == nil; first {
		g.next = &settlement{due: g.last.Add(g.every), full: make(chan struct{}), done: make(chan struct{})}
	}
	b = g.next
	b.answers, b.bytes = append(b.answers, a), b.bytes+len(a.meta)+len(a.body)
	if g.held[a.entry] || time.Until(b.due) <= 0 || len(b.answers) == maxTogether || b.bytes >= maxSettled {
		g.close()
	}
	delete(g.held, a.entry)
	return b, first
}

// close is called with the lock.
func (g *settles) close() {
	close(g.next.full)
	g.next, g.last = nil, time.Now()
}

// join gives an exchange what is due soon, so that Redis is not woken for that. It is nil for nothing.
func (g *settles) join() *settlement {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.next
	if b == nil || time.Until(b.due) > g.every/soon {
		return nil
	}
	b.alien = true
	g.close()
	return b
}

// await returns when no more is added to b.
func (g *settles) await(b *settlement) {
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

// store stores an answer together with others, and gives what settleScript replied.
func (s *Store) store(ctx context.Context, a *answer) (word string, err error) {
	b, first := s.settles.add(a)
	if first {
		s.settles.await(b)
	}
	if !first || b.alien {
		<-b.done
	} else {
		_ = s.exchange(ctx, time.Now().Add(s.o.Timeout), s.settleBy(s.settle.EvalSha, maxTold, b.answers)) // each answer has the error
		close(b.done)
	}
	word, err = a.reply()
	if s.crossed(err) || redis.HasErrorPrefix(err, "NOSCRIPT") { // a pipeline has no second try with the script's text
		_ = s.exchange(ctx, time.Now().Add(s.o.Timeout), s.settleBy(s.settle.Eval, maxTold, []*answer{a}))
		word, err = a.reply()
	}
	if err != nil || len(a.meta) > 0 { // to give a lease back needs no memory
		s.noteWrite(err)
	}
	if isReply(err) {
		s.refused(err)
	}
	return word, err
}

// crossed tells that answers were refused for being in different hash slots, and notes that they are.
func (s *Store) crossed(err error) bool {
	crossed := redis.HasErrorPrefix(err, "CROSSSLOT")
	if crossed {
		s.slotted.Store(true)
	}
	return crossed
}
