package cache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// sharedFunc is a shared store of which a test says what it does.
type sharedFunc struct {
	cache.Shared // nil: what no test here calls

	read     func() (*cache.Entry, error)
	newLease func(to cache.Subscriber)
	acquire  func(to cache.Subscriber) (cache.LeaseReply, error)
	settle   func() error

	subscriber chan cache.Subscriber
}

func (s *sharedFunc) Read(context.Context, string, string) (*cache.Entry, error) { return s.read() }

func (s *sharedFunc) HotKeys(context.Context, string, int) ([]string, error) { return nil, nil }

func (s *sharedFunc) SaveHotKeys(context.Context, string, []cache.HotKey) error { return nil }

func (s *sharedFunc) NewLease(string, string, int64) cache.Lease {
	to := <-s.subscriber
	s.subscriber <- to
	s.newLease(to)
	return &leaseFunc{s, to}
}

func (s *sharedFunc) Subscribe(ctx context.Context, _ string, to cache.Subscriber) {
	s.subscriber <- to
	<-ctx.Done()
}

type leaseFunc struct {
	s  *sharedFunc
	to cache.Subscriber
}

func (l *leaseFunc) Acquire(context.Context, *cache.Entry) (cache.LeaseReply, error) {
	return l.s.acquire(l.to)
}
func (l *leaseFunc) Keep(context.Context)                                       {}
func (l *leaseFunc) Publish(context.Context, *cache.Entry, time.Duration) error { return l.s.settle() }
func (l *leaseFunc) Abandon(context.Context, bool) error                        { return l.s.settle() }

// shareWith returns a cache with a shared store of the test's.
func shareWith(t *testing.T, s *sharedFunc) *cache.Cache {
	t.Helper()
	s.subscriber = make(chan cache.Subscriber, 1)
	if s.newLease == nil {
		s.newLease = func(cache.Subscriber) {}
	}
	c := newCache(t, cache.Options{Shared: s})
	c.SetNamespace("story-1")
	return c
}

func TestCallerWaitsForSilentSharedStoreOnce(t *testing.T) {
	for name, origin := range map[string]cache.Origin{"the origin answers": answer(100, page), "the origin fails": down} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const timeout = 100 * time.Millisecond
				errSilent := errors.New("silent")
				silence := func() error { time.Sleep(timeout); return errSilent }
				c := shareWith(t, &sharedFunc{
					read:    func() (*cache.Entry, error) { return nil, silence() },
					acquire: func(cache.Subscriber) (cache.LeaseReply, error) { return cache.LeaseReply{}, silence() },
					settle:  silence,
				})
				began := time.Now()
				_, _ = c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, origin)
				if took := time.Since(began); took != timeout {
					t.Errorf("the answer took %v, want %v", took, timeout)
				}
			})
		})
	}
}

func TestAnswerIsReturnedBeforeSharedStoreWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan error)
		c := shareWith(t, &sharedFunc{
			read: func() (*cache.Entry, error) { return nil, nil },
			acquire: func(cache.Subscriber) (cache.LeaseReply, error) {
				return cache.LeaseReply{State: cache.LeaseGranted}, nil
			},
			settle: func() error { return <-written },
		})
		res := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
		if res.Outcome != cache.Miss {
			t.Errorf("outcome = %v, want miss", res.Outcome)
		}
		written <- nil
	})
}

func TestPanicWhilePublishingCostsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shareWith(t, &sharedFunc{
			read: func() (*cache.Entry, error) { return nil, nil },
			acquire: func(cache.Subscriber) (cache.LeaseReply, error) {
				return cache.LeaseReply{State: cache.LeaseGranted}, nil
			},
			settle: func() error { panic("an entry that cannot be encoded") },
		})
		for height := int64(100); height < 103; height++ { // each flight waits for the write of the one before
			res := mustGet(t, c, cache.Query{Key: "k", Policy: cache.Policy{Keep: time.Hour}, Tip: height}, answer(height, page))
			if res.Outcome != cache.Miss || res.Entry.Height != height {
				t.Errorf("got %v at height %d, want a miss at %d", res.Outcome, res.Entry.Height, height)
			}
		}
	})
}

// What was told before the shared store is asked is in its reply.
func TestMessageBeforeLeaseRequestIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := shareWith(t, &sharedFunc{
			read:     func() (*cache.Entry, error) { return nil, nil },
			newLease: func(to cache.Subscriber) { to.Notify("k", false) },
			acquire: func(to cache.Subscriber) (cache.LeaseReply, error) {
				if asked++; asked > 1 {
					return cache.LeaseReply{State: cache.LeaseChanged, Entry: entry(100, "of the other")}, nil
				}
				time.AfterFunc(time.Second, func() { to.Notify("k", true) })
				return cache.LeaseReply{State: cache.LeaseBusy, Left: time.Hour}, nil
			},
			settle: func() error { return nil },
		})
		res := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, []byte("read twice")))
		if got := tell(res, nil); got != "hit shared: of the other at 100" {
			t.Errorf("got %s, want hit shared: of the other at 100", got)
		}
	})
}

// Memory orders an entry of unknown height by its time alone, and may so keep
// one that serves worse than what the flight has just read.
func TestFlightReturnsBetterEntryThanMemory(t *testing.T) {
	c := newCache(t, cache.Options{})
	res := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, func(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) {
		read := entry(100, "of block 100")
		later := entry(0, "of an unknown block")
		later.ReadAt = read.ReadAt.Add(-time.Minute)
		read.ReadAt = later.ReadAt.Add(-time.Second)
		c.Save(ctx, map[string]*cache.Entry{"k": later}, 0)
		return read, nil
	})
	if got := tell(res, nil); got != "miss uri-miss: of block 100 at 100" {
		t.Errorf("got %s, want miss uri-miss: of block 100 at 100", got)
	}
}
