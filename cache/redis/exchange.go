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
// while fewer exchanges are under way than there are processors. Operations that come
// meanwhile go together when an exchange has ended: one exchange for all of them
// costs little more than one for a single operation.
const maxTogether = 32

// exchanges are those under way, and the operations that wait for their end.
type exchanges struct {
	mu       sync.Mutex
	underWay int
	waiting  []*operation // in the order in which they came
}

// An operation is what one caller asks of Redis, who waits for woken unless it may go on
// at once.
type operation struct {
	// send sends its commands, or puts them on a pipeline, and gives the last of them. No
	// reply to that is none to the operation.
	send   func(ctx context.Context, to redis.Cmdable) redis.Cmder
	single bool      // it is one command
	due    time.Time // for Redis to have answered, the wait for its turn included
	last   redis.Cmder
	err    error             // why Redis has not answered
	woken  chan []*operation // with those to be done, its own among them, or nil once it is done
}

// begin tells whether o may go to Redis now. Else o is woken.
func (g *exchanges) begin(o *operation) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underWay < runtime.GOMAXPROCS(0) {
		g.underWay++
		return true
	}
	o.woken = make(chan []*operation, 1)
	g.waiting = append(g.waiting, o)
	return false
}

// end hands the exchange that has ended on to the operations that have waited longest.
func (g *exchanges) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxTogether)
	if n == 0 {
		g.underWay--
		return
	}
	next := make([]*operation, n)
	copy(next, g.waiting)
	rest := copy(g.waiting, g.waiting[n:])
	clear(g.waiting[rest:])
	g.waiting = g.waiting[:rest]
	next[0].woken <- next
}

// ask does an operation alone or with those of others. It has twice the store's time from now on,
// where it has to wait for an exchange that is under way.
func (s *Store) ask(ctx context.Context, o *operation) error {
	o.due = time.Now().Add(2 * s.o.Timeout)
	if s.exchanges.begin(o) {
		s.doAll(ctx, []*operation{o})
	} else if together := <-o.woken; together != nil {
		s.doAll(ctx, together)
	}
	return o.err
}

// doAll does the operations in one exchange and wakes the callers of all but the
// first. The exchange has the store's time, but what the newest has left if that is less: after
// a stall the oldest has none. It does not end with ctx: that is of one caller. What is settled
// soon anyway goes along.
func (s *Store) doAll(ctx context.Context, together []*operation) {
	defer s.exchanges.end()
	due, all := time.Now().Add(s.o.Timeout), together
	if newest := together[len(together)-1]; newest.due.Before(due) {
		due = newest.due
	}
	if b := s.settles.join(); b != nil {
		all = slices.Concat(together, b.operations)
		defer close(b.done)
	}
	_ = s.exchange(context.WithoutCancel(ctx), due, all) // each operation has the error
	for _, o := range together[1:] {
		o.woken <- nil
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
