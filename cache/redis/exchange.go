package redis

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxTogether bounds the operations of one exchange. An operation goes to Redis alone
// while fewer exchanges are under way than there are processors, or none if what follows
// it takes longer anyway. Operations that come meanwhile go together when an exchange has
// ended: one exchange for all of them costs little more than one for a single operation.
// An exchange that takes longer than young may hang: nothing waits for its sake alone.
// An operation that no caller waited for when it came goes with the next exchange, or begins one
// once enough of them wait, or the first has waited for patience.
const (
	maxTogether = 32
	enough      = 16
	young       = 5 * time.Millisecond
	patience    = 2 * time.Millisecond
)

// exchanges are those under way with one Redis, and the operations that wait for their end. Each node
// of a Cluster has its own: an exchange with several would be as slow as the slowest, and fail with it.
// What a Cluster is told of answers is for several nodes, and goes beside these (writes.go).
type exchanges struct {
	mu       sync.Mutex
	underWay int
	began    time.Time    // when the newest of them did
	waiting  []*operation // in the order in which they came
}

// An operation is what one caller asks of Redis, who waits for woken unless it may go on
// at once.
type operation struct {
	// send sends its commands, or puts them on a pipeline, and gives the last of them. No
	// reply to that is none to the operation.
	send    func(ctx context.Context, to redis.Cmdable) redis.Cmder
	key     string    // in whose hash slot all keys of the commands are
	single  bool      // it is one command
	gathers bool      // it goes alone only while no young exchange is under way
	patient bool      // no caller waited for it when it came
	due     time.Time // for Redis to have answered, the wait for its turn included
	last    redis.Cmder
	err     error             // why Redis has not answered
	woken   chan []*operation // with those to be done, its own among them, or nil once it is done
}

// begin gives what goes to Redis now, o and what waits. It gives nothing where o has to wait:
// then o is woken.
func (g *exchanges) begin(o *operation) []*operation {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := runtime.GOMAXPROCS(0)
	if o.gathers && time.Since(g.began) < young {
		most = 1
	}
	if g.underWay < most && (!o.patient || len(g.waiting) >= enough-1) {
		g.underWay++
		return g.next(o)
	}
	o.woken = make(chan []*operation, 1)
	if g.waiting = append(g.waiting, o); o.patient && len(g.waiting) == 1 {
		time.AfterFunc(patience, g.beginWaiting)
	}
	return nil
}

// beginWaiting begins an exchange of what waits, unless the end of one under way does.
func (g *exchanges) beginWaiting() {
	g.mu.Lock()
	full := g.underWay >= runtime.GOMAXPROCS(0)
	if !full {
		g.underWay++
	}
	g.mu.Unlock()
	if !full {
		g.end()
	}
}

// end hands the exchange that has ended on to the operations that have waited longest.
func (g *exchanges) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.underWay--
		return
	}
	next := g.next()
	next[0].woken <- next
}

// next takes the operations that have waited longest, and puts newer ones behind them. It is called
// with the lock.
func (g *exchanges) next(newer ...*operation) []*operation {
	g.began = time.Now()
	n := min(len(g.waiting), maxTogether-len(newer))
	next := slices.Concat(g.waiting[:n], newer)
	g.waiting = slices.Delete(g.waiting, 0, n)
	return next
}

// ask does an operation alone or with those of others. It has twice the store's time from now on,
// where it has to wait for an exchange that is under way.
func (s *Store) ask(ctx context.Context, o *operation) error {
	o.due = time.Now().Add(2 * s.o.Timeout)
	g := s.exchangesFor(ctx, o.key)
	together := g.begin(o)
	if together == nil {
		together = <-o.woken
	}
	if together != nil {
		s.doAll(ctx, g, together)
	}
	return o.err
}

// exchangesFor gives the exchanges with the node that has a key. Until a Cluster has answered once, its
// client would wait for it here, where neither the breaker nor a deadline is.
func (s *Store) exchangesFor(ctx context.Context, key string) *exchanges {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok || !s.answered.Load() {
		return &s.exchanges
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return &s.exchanges // which fail as this did
	}
	address := node.Options().Addr
	g, ok := s.nodes.Load(address)
	if !ok {
		g, _ = s.nodes.LoadOrStore(address, &exchanges{})
	}
	return g.(*exchanges) //nolint:forcetypeassert // there are no others
}

// doAll does the operations in one exchange and wakes the callers of those that
// waited. The exchange has the store's time, but what the newest has left if that is less: after
// a stall the oldest has none. It does not end with ctx: that is of one caller. What is settled
// soon anyway goes along, but in a Cluster, where other nodes have it.
func (s *Store) doAll(ctx context.Context, g *exchanges, together []*operation) {
	defer g.end()
	due, all := time.Now().Add(s.o.Timeout), together
	if newest := together[len(together)-1]; newest.due.Before(due) {
		due = newest.due
	}
	if !s.cluster {
		if b := s.settles.join(); b != nil {
			all = slices.Concat(together, s.settleBy(s.settle.EvalSha, maxTold, b.answers))
			defer close(b.done)
		}
	}
	_ = s.exchange(context.WithoutCancel(ctx), due, all) // each operation has the error
	for _, o := range together {
		if o.woken != nil {
			o.woken <- nil
		}
	}
}

// exchange does all operations in one round trip.
func (s *Store) exchange(ctx context.Context, due time.Time, together []*operation) error {
	if len(together) == 0 {
		return nil
	}
	err := s.doUntil(ctx, due, func(ctx context.Context) error {
		if o := together[0]; len(together) == 1 && o.single {
			o.last = o.send(ctx, s.rdb)
			return silence(o.last.Err())
		}
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, o := range together {
				o.last = o.send(ctx, p)
			}
			return nil
		})
		for _, o := range together { // err is that of the first command that has one
			if err = silence(err); err == nil {
				err = o.last.Err()
			}
		}
		return silence(err)
	})
	if err == nil && !s.answered.Load() {
		s.answered.Store(true)
	}
	for _, o := range together {
		o.err = err
	}
	return err
}

// silence is an error that is no reply.
func silence(err error) error {
	if isReply(err) {
		return nil
	}
	return err
}
