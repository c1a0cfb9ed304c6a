package cache_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A fakeShared is a shared store whose methods call functions of the test.
type fakeShared struct {
	cache.Shared // nil; the tests do not call its other methods

	load     func(keys []string) map[string]*cache.Entry
	read     func() (*cache.Entry, error)
	newLease func(to cache.Subscriber)
	acquire  func(to cache.Subscriber) (cache.LeaseReply, error)
	settle   func() error

	subscriber chan cache.Subscriber
}

// newFakeShared returns a shared store that finds no entry, grants all leases and accepts all writes.
func newFakeShared() *fakeShared {
	return &fakeShared{
		read:     func() (*cache.Entry, error) { return nil, nil },
		newLease: func(cache.Subscriber) {},
		acquire: func(cache.Subscriber) (cache.LeaseReply, error) {
			return cache.LeaseReply{State: cache.LeaseGranted}, nil
		},
		settle:     func() error { return nil },
		subscriber: make(chan cache.Subscriber, 1),
	}
}

func (s *fakeShared) Read(context.Context, string, string) (*cache.Entry, error) { return s.read() }

func (s *fakeShared) Load(_ context.Context, _ string, keys ...string) (map[string]*cache.Entry, error) {
	return s.load(keys), nil
}

func (s *fakeShared) NewLease(string, string, int64, bool) cache.Lease {
	to := <-s.subscriber
	s.subscriber <- to
	s.newLease(to)
	return &fakeLease{s, to}
}

func (s *fakeShared) Subscribe(ctx context.Context, _ string, to cache.Subscriber) {
	s.subscriber <- to
	<-ctx.Done()
}

type fakeLease struct {
	s  *fakeShared
	to cache.Subscriber
}

func (l *fakeLease) Acquire(context.Context, *cache.Entry) (cache.LeaseReply, error) {
	return l.s.acquire(l.to)
}
func (l *fakeLease) Keep(context.Context)                                       {}
func (l *fakeLease) Publish(context.Context, *cache.Entry, time.Duration) error { return l.s.settle() }
func (l *fakeLease) Abandon(context.Context, bool) error                        { return l.s.settle() }

// newCacheWith returns a cache of the chain story-1 with a shared store.
func newCacheWith(t *testing.T, s *fakeShared, o cache.Options) *cache.Cache {
	t.Helper()
	o.Shared = s
	c := newCache(t, o)
	c.SetNamespace("story-1")
	return c
}

func TestCallerWaitsOnceForSharedStoreWithoutReply(t *testing.T) {
	for name, origin := range map[string]originFunc{"the origin answers": answer(100, page), "the origin fails": down} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const timeout = 100 * time.Millisecond
				timeOut := func() error { time.Sleep(timeout); return context.DeadlineExceeded }
				s := newFakeShared()
				s.read = func() (*cache.Entry, error) { return nil, timeOut() }
				s.acquire = func(cache.Subscriber) (cache.LeaseReply, error) { return cache.LeaseReply{}, timeOut() }
				s.settle = timeOut
				c := newCacheWith(t, s, cache.Options{})
				start := time.Now()
				_, _ = c.Get(t.Context(), cache.Query{Key: "k", Policy: live, Tip: 100}, origin)
				expect.Equal(t, time.Since(start), timeout, "duration of Get")
			})
		})
	}
}

func TestAnswerIsReturnedBeforeSharedStoreWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan error)
		s := newFakeShared()
		s.settle = func() error { return <-written }
		res := mustGet(t, newCacheWith(t, s, cache.Options{}), cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page))
		expect.Equal(t, res.Outcome, cache.Miss, "outcome")
		written <- nil
	})
}

func TestPanicDuringWriteDoesNotFailRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeShared()
		s.settle = func() error { panic("an entry that cannot be encoded") }
		c := newCacheWith(t, s, cache.Options{})
		for height := int64(100); height < 103; height++ { // each flight waits for the previous write
			res := mustGet(t, c, cache.Query{Key: "k", Policy: cache.Policy{Keep: time.Hour}, Tip: height}, answer(height, page))
			if res.Outcome != cache.Miss || res.Entry.Height != height {
				t.Errorf("got %v at height %d, want a miss at %d", res.Outcome, res.Entry.Height, height)
			}
		}
	})
}

func TestPanicDuringReadDoesNotFailRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeShared()
		s.read = func() (*cache.Entry, error) { panic("an entry that cannot be decoded") }
		c := newCacheWith(t, s, cache.Options{})
		checkGet(t, c, cache.Query{Key: "k", Policy: byTheBlock, Tip: 100}, answer(100, page), cache.Miss, 100, 0)
	})
}

// The reply to a lease request includes all that earlier messages announced.
func TestMessageBeforeLeaseRequestIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, s := 0, newFakeShared()
		s.newLease = func(to cache.Subscriber) { to.Notify("k", false) }
		s.acquire = func(to cache.Subscriber) (cache.LeaseReply, error) {
			if requests++; requests > 1 {
				return cache.LeaseReply{State: cache.LeaseChanged, Entry: entry(100, "of the other")}, nil
			}
			time.AfterFunc(time.Second, func() { to.Notify("k", true) })
			return cache.LeaseReply{State: cache.LeaseBusy, Left: time.Hour}, nil
		}
		res := mustGet(t, newCacheWith(t, s, cache.Options{}), cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, []byte("read twice")))
		expect.Equal(t, describe(res, nil), "hit shared: of the other at 100", "result")
	})
}

// Another replica can renew an entry while this one's read stalls, because its lease request failed.
func TestWaitEndsWhenAnotherReplicaRenewedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeShared()
		c := newCacheWith(t, s, cache.Options{Patience: 100 * time.Millisecond})
		q := cache.Query{Key: "k", Policy: byTheBlock, Tip: 100}
		mustGet(t, c, q, answer(100, page))
		q.Tip = 101
		stalled := func(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var first sync.WaitGroup
		first.Go(func() { checkGet(t, c, q, stalled, cache.Hit, 101, 120*time.Millisecond) })
		synctest.Wait()
		e := entry(101, "of another replica")
		to := <-s.subscriber
		to.Renewed("k", cache.Renewal{Height: 101, ETag: e.ETag, Whole: true, Read: func(*cache.Entry) *cache.Entry { return e }})
		checkGet(t, c, q, stalled, cache.Hit, 101, 0)
		first.Wait()
	})
}

// Memory orders an entry of unknown height only by its time, so it may keep an older entry than the flight has read.
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
	expect.Equal(t, describe(res, nil), "miss uri-miss: of block 100 at 100", "result")
}
