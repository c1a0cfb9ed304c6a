package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/ahead"
)

// A schedule is a random history of two replicas. Its parameters say what may go wrong.
type schedule struct {
	random *rand.Rand // of the schedule; guarded by mu

	memory     int64 // of each replica, in bytes; 0 means the default
	storeFails bool  // the shared store fails now and then
	fails      bool  // the origin fails, panics and is behind now and then
	closes     bool  // a replica is closed while callers wait

	mu      sync.Mutex
	tip     int64
	entries map[string]*cache.Entry // of the shared store
	leases  map[string]*modelLease  // granted ones
	to      map[int]cache.Subscriber
	calls   map[string]int   // of the origin, in progress, by key and replica
	read    map[string]int64 // newest height that the origin returned, by key
	errs    []string
}

func (s *schedule) chance(percent int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(100) < percent
}

func (s *schedule) sleep(most time.Duration) {
	s.mu.Lock()
	d := time.Duration(s.random.Int64N(int64(most)))
	s.mu.Unlock()
	time.Sleep(d)
}

// violated records a violation. The caller holds mu.
func (s *schedule) violated(format string, args ...any) {
	s.errs = append(s.errs, fmt.Sprintf(format, args...))
}

// modelShared is the shared store as one replica sees it.
type modelShared struct {
	*fakeShared
	s       *schedule
	replica int
}

var errStore = errors.New("the shared store does not answer")

func (m *modelShared) fault() error {
	m.s.sleep(20 * time.Millisecond)
	if m.s.storeFails && m.s.chance(10) {
		return errStore
	}
	return nil
}

func (m *modelShared) Read(_ context.Context, _, key string) (*cache.Entry, error) {
	m.s.mu.Lock()
	e := m.s.entries[key] // as it was when the read began
	m.s.mu.Unlock()
	return e, m.fault()
}

func (m *modelShared) Subscribe(ctx context.Context, _ string, to cache.Subscriber) {
	m.s.mu.Lock()
	m.s.to[m.replica] = to
	m.s.mu.Unlock()
	<-ctx.Done()
}

func (m *modelShared) NewLease(_, key string, _ int64, _ bool) cache.Lease {
	return &modelLease{modelShared: m, key: key}
}

type modelLease struct {
	*modelShared
	key string
}

func (l *modelLease) Acquire(_ context.Context, judged *cache.Entry) (cache.LeaseReply, error) {
	if err := l.fault(); err != nil {
		return cache.LeaseReply{}, err
	}
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[l.key]
	switch {
	case e != nil && (judged == nil || judged.ETag != e.ETag || judged.Height != e.Height):
		return cache.LeaseReply{State: cache.LeaseChanged, Entry: e}, nil
	case s.leases[l.key] != nil:
		return cache.LeaseReply{State: cache.LeaseBusy, Left: time.Minute}, nil
	}
	s.leases[l.key] = l
	return cache.LeaseReply{State: cache.LeaseGranted}, nil
}

func (l *modelLease) Keep(context.Context) {}

func (l *modelLease) Publish(_ context.Context, e *cache.Entry, _ time.Duration) error {
	return l.end(true, e)
}

func (l *modelLease) Abandon(_ context.Context, again bool) error { return l.end(again, nil) }

// end stores an entry, releases the lease and wakes the replicas. Some messages carry the entry.
func (l *modelLease) end(again bool, e *cache.Entry) error {
	failure, carries := l.fault(), l.s.chance(50)
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.key] == l {
		delete(s.leases, l.key)
	}
	if failure == nil && e != nil && (s.entries[l.key] == nil || s.entries[l.key].Height <= e.Height) {
		s.entries[l.key] = e
	}
	for _, to := range s.to {
		if e != nil && failure == nil && carries {
			to.Renewed(l.key, cache.Renewal{Height: e.Height, ETag: e.ETag, Whole: true, Size: len(e.Body), Read: func(*cache.Entry) *cache.Entry { return e }})
		} else {
			to.Notify(l.key, again && failure == nil)
		}
	}
	return failure
}

// origin returns the origin of a key for a replica.
func (s *schedule) origin(key string, replica int) originFunc {
	at := fmt.Sprint(key, " of ", replica)
	return func(ctx context.Context, before *cache.Entry) (*cache.Entry, error) {
		s.mu.Lock()
		height := s.tip
		s.calls[at]++
		s.calls[key]++
		if s.calls[at] > 1 || s.calls[key] > 1 && !s.storeFails && !s.fails {
			s.violated("%s: %d calls at a time, %d by all replicas", at, s.calls[at], s.calls[key])
		}
		if s.read[key] == height && !s.storeFails && !s.fails {
			s.violated("%s: read again at %d", at, height)
		}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.calls[at]--
			s.calls[key]--
		}()
		s.sleep(100 * time.Millisecond)
		switch {
		case s.fails && s.chance(5):
			panic("an origin that fails")
		case s.fails && s.chance(15):
			return nil, errDown
		case s.fails && s.memory == 0 && s.chance(5): // otherwise nothing shows that it is behind
			height--
		}
		s.mu.Lock()
		s.read[key] = max(s.read[key], height)
		s.mu.Unlock()
		return entry(height, fmt.Sprint(key, " at ", height/2)), nil
	}
}

var byBlock = cache.Policy{StaleBlocks: 3, ErrorBlocks: 1000, Fresh: time.Second, Stale: time.Minute, StaleIfError: time.Hour, Keep: time.Hour}

// caller gets random keys of a replica. The heights that it gets do not decrease.
func (s *schedule) caller(ctx context.Context, c *cache.Cache, replica int) {
	seen := map[string]int64{}
	for range 40 {
		s.sleep(30 * time.Millisecond)
		s.mu.Lock()
		key := fmt.Sprint("k", s.random.IntN(4))
		q := cache.Query{Key: key, Policy: byBlock, Tip: s.tip, MaxHeight: s.tip + 10, Interval: 400 * time.Millisecond, Ahead: true}
		if s.random.IntN(10) == 0 {
			q.MinHeight = q.Tip
		}
		impatient := s.random.IntN(10) == 0
		s.mu.Unlock()
		within, cancel := ctx, func() {}
		if impatient {
			within, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
		}
		res, err := c.Get(within, q, s.origin(key, replica))
		cancel()
		if err != nil {
			continue
		}
		s.mu.Lock()
		lost := s.memory > 0 && s.storeFails // memory has evicted the entry, and the shared store has refused it
		if res.Entry.Height < seen[key] && !lost {
			s.violated("%s of %d: height %d (%v) after %d", key, replica, res.Entry.Height, res.Outcome, seen[key])
		}
		if res.Entry.Height < q.MinHeight && !s.fails {
			s.violated("%s of %d: height %d, want at least %d", key, replica, res.Entry.Height, q.MinHeight)
		}
		if want := fmt.Sprint(key, " at ", res.Entry.Height/2); string(res.Entry.Body) != want {
			s.violated("%s of %d: body %s, want %s", key, replica, res.Entry.Body, want)
		}
		seen[key] = res.Entry.Height
		s.mu.Unlock()
	}
}

func (s *schedule) run(t *testing.T) {
	s.tip, s.entries, s.leases, s.to = 100, map[string]*cache.Entry{}, map[string]*modelLease{}, map[int]cache.Subscriber{}
	s.calls, s.read = map[string]int{}, map[string]int64{}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var callers, blocks sync.WaitGroup
	var caches []*cache.Cache
	for replica := range 2 {
		c := newCache(t, cache.Options{MemoryBytes: s.memory, Shared: &modelShared{newFakeShared(), s, replica}})
		c.SetNamespace("story-1")
		caches = append(caches, c)
		for range 4 {
			callers.Go(func() { s.caller(ctx, c, replica) })
		}
	}
	if s.closes {
		callers.Go(func() {
			s.sleep(time.Second)
			_ = caches[0].Close()
		})
	}
	blocks.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(400 * time.Millisecond)
			s.mu.Lock()
			s.tip++
			b := ahead.Block{Height: s.tip, MaxHeight: s.tip + 10, Time: 300 * time.Millisecond, Room: func() bool { return true }}
			s.mu.Unlock()
			for _, c := range caches {
				c.ReadAhead(ctx, b)
			}
		}
	})
	callers.Wait() // each caller ends
	end()
	blocks.Wait()
	for _, violation := range s.errs[:min(len(s.errs), 5)] {
		t.Errorf("%s, with memory %d, store fails %t, origin fails %t, closes %t", violation, s.memory, s.storeFails, s.fails, s.closes)
	}
}

// For one key and block, a replica calls the origin once at a time, and all replicas together once while the shared store and the
// origin work. No caller gets an older entry than before, unless memory has evicted the newer one and the shared store lacks it. Every Get
// returns.
func TestRandomSchedules(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &schedule{random: random, storeFails: seed%2 > 0, fails: seed%3 > 0, closes: seed%5 == 4}
		if seed%7 > 3 {
			s.memory = 1500 // about four entries
		}
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { synctest.Test(t, s.run) }) {
			break
		}
	}
}
