package redis

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// maxTogether bounds the reads of one exchange. A read goes to Redis alone while
// fewer exchanges are under way than there are processors. Reads that come
// meanwhile go together when an exchange has ended: one exchange for all of them
// costs little more than one for a single read.
const maxTogether = 32

// reads are the reads of one key each that are under way.
type reads struct {
	mu        sync.Mutex
	exchanges int
	waiting   []*read // in the order in which they came
}

// A read is one caller's, who waits for woken unless it may go on at once.
type read struct {
	at     string
	due    time.Time // for the store to have answered
	fields *redis.SliceCmd
	err    error
	woken  chan []*read // with those to be read, its own among them, or nil once it is read
}

// begin tells whether r may go to Redis now. Else r is woken.
func (g *reads) begin(r *read) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exchanges < runtime.GOMAXPROCS(0) {
		g.exchanges++
		return true
	}
	r.woken = make(chan []*read, 1)
	g.waiting = append(g.waiting, r)
	return false
}

// end hands the exchange that has ended on to the reads that have waited longest.
func (g *reads) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxTogether)
	if n == 0 {
		g.exchanges--
		return
	}
	next := make([]*read, n)
	copy(next, g.waiting)
	rest := copy(g.waiting, g.waiting[n:])
	clear(g.waiting[rest:])
	g.waiting = g.waiting[:rest]
	next[0].woken <- next
}

// newRead is a read that has the store's time from now on.
func (s *Store) newRead(namespace, key string) *read {
	return &read{at: entryKey(namespace, key), due: time.Now().Add(s.o.Timeout)}
}

// Read implements [cache.Shared].
func (s *Store) Read(ctx context.Context, namespace, key string) (*cache.Entry, error) {
	ctx, span := startSpan(ctx, "redis.load")
	r := s.newRead(namespace, key)
	if s.reads.begin(r) {
		s.readAll(ctx, []*read{r})
	} else if together := <-r.woken; together != nil {
		s.readAll(ctx, together)
	}
	upstream.EndSpan(span, r.err)
	e, _ := s.decodeFields(r.at, r.fields) // an error is counted, and as good as no entry
	return e, r.err
}

// Load implements [cache.Shared], in one exchange.
func (s *Store) Load(ctx context.Context, namespace string, keys ...string) (map[string]*cache.Entry, error) {
	ctx, span := startSpan(ctx, "redis.load")
	reads := make([]*read, len(keys))
	for i, key := range keys {
		reads[i] = s.newRead(namespace, key)
	}
	err := s.exchange(ctx, reads)
	upstream.EndSpan(span, err)
	found := make(map[string]*cache.Entry, len(keys))
	for i, r := range reads {
		if e, _ := s.decodeFields(r.at, r.fields); e != nil {
			found[keys[i]] = e
		}
	}
	return found, err
}

// readAll does the reads in one exchange and wakes the callers of all but the
// first. They have waited before, and that counts; but the exchange has the time of
// the newest, for after a stall the oldest has none left. So a caller waits for
// twice the timeout at most: every exchange before its own ends within the time of
// a read that came before it.
func (s *Store) readAll(ctx context.Context, together []*read) {
	defer s.reads.end()
	err := s.exchange(ctx, together)
	for _, r := range together {
		r.err = err
	}
	for _, r := range together[1:] {
		r.woken <- nil
	}
}

// exchange asks Redis for all reads in one round trip.
func (s *Store) exchange(ctx context.Context, together []*read) error {
	if len(together) == 0 {
		return nil
	}
	err := s.doUntil(ctx, together[len(together)-1].due, func(ctx context.Context) error {
		if len(together) == 1 {
			together[0].fields = s.rdb.HMGet(ctx, together[0].at, "m", "b")
			return together[0].fields.Err()
		}
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, r := range together {
				r.fields = p.HMGet(ctx, r.at, "m", "b")
			}
			return nil
		})
		return err
	})
	if isReply(err) {
		return nil // about a key that holds something else
	}
	return err
}
