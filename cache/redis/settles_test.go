package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

// answerOf is an answer at a height.
func answerOf(height int64) *cache.Entry {
	return &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 1), Height: height, ReadAt: time.UnixMicro(height)}
}

// gathering returns a store that has just settled an answer, and gathers those after it for as long
// as nobody waits for one.
func gathering(t *testing.T) (*Store, *miniredis.Miniredis) {
	t.Helper()
	s, server := newStore(t)
	s.settles.every = time.Hour
	s.settles.last = time.Now()
	return s, server
}

// granted is the lease of a key, which is free.
func (s *Store) granted(t *testing.T, key string) cache.Lease {
	t.Helper()
	l := s.NewLease("story-1", key, 0)
	if reply, err := l.Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseGranted {
		t.Fatalf("the lease of %q: %+v, %v", key, reply, err)
	}
	return l
}

// gathered waits until so many answers are gathered.
func (s *Store) gathered(n int) {
	for got := 0; got < n; time.Sleep(time.Millisecond) {
		s.settles.mu.Lock()
		if s.settles.next != nil {
			got = len(s.settles.next.operations)
		}
		s.settles.mu.Unlock()
	}
}

func TestALoneAnswerIsSettledAtOnce(t *testing.T) {
	s, _ := newStore(t)
	s.settles.every = time.Hour
	if err := s.granted(t, "k").Publish(t.Context(), answerOf(1), time.Hour); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatFollowEachOtherAreSettledTogether(t *testing.T) {
	const answers = 5
	s, server := gathering(t)
	server.HSet(entryKey("story-1", "0"), "m", "1 7 7 0 newer 200 1\n")
	hook := &pipelines{letGo: make(chan struct{})}
	close(hook.letGo)
	var under sync.WaitGroup
	for i := range answers {
		l := s.NewLease("story-1", fmt.Sprint(i), 0)
		if i > 0 {
			l = s.granted(t, fmt.Sprint(i))
		}
		under.Go(func() {
			if err := l.Publish(t.Context(), answerOf(1), time.Hour); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	s.gathered(answers)
	s.rdb.AddHook(hook)
	if e, _ := s.Read(t.Context(), "story-1", "1"); e != nil {
		t.Error("an answer was settled before the others")
	}
	s.NewLease("story-1", "3", 0) // of the flight that comes next
	under.Wait()
	if hook.most != answers {
		t.Errorf("%d answers went together, want %d", hook.most, answers)
	}
	for i := range answers {
		at := entryKey("story-1", fmt.Sprint(i))
		if m := server.HGet(at, "m"); (m[:4] == "1 7 ") != (i == 0) || server.Exists(leaseKey(at)) {
			t.Errorf("%d: %q is stored, and there is a lease: %v", i, m, server.Exists(leaseKey(at)))
		}
	}
}

func TestWhatIsSettledSoonGoesWithAnotherExchange(t *testing.T) {
	s, server := gathering(t)
	s.settles.last = time.Now().Add(-s.settles.every + s.settles.every/(2*soon))
	settled := make(chan error, 1)
	l := s.granted(t, "k")
	go func() { settled <- l.Publish(t.Context(), answerOf(1), time.Hour) }()
	s.gathered(1)
	hook := &pipelines{letGo: make(chan struct{})}
	close(hook.letGo)
	s.rdb.AddHook(hook)
	if e, err := s.Read(t.Context(), "story-1", "another"); e != nil || err != nil {
		t.Errorf("the other key: %+v, %v", e, err)
	}
	if err := <-settled; err != nil || hook.most != 2 {
		t.Errorf("error %v, and %d commands went together, want 2", err, hook.most)
	}
	if !server.Exists(entryKey("story-1", "k")) {
		t.Error("nothing was stored")
	}
}

// subscriber hears nothing of interest.
type subscriber struct{ cache.Subscriber }

func (subscriber) NotifyAll()                    {}
func (subscriber) Notify(string, bool)           {}
func (subscriber) Renewed(string, cache.Renewal) {}

func TestAnAnswerThatACallerOfAnotherReplicaWaitsForIsSettledAtOnce(t *testing.T) {
	for name, before := range map[string]bool{"it waits before it has come": true, "it waits for what is gathered": false} {
		t.Run(name, func(t *testing.T) {
			holder, server := gathering(t)
			ctx, end := context.WithCancel(t.Context())
			var listens sync.WaitGroup
			defer listens.Wait()
			defer end()
			listens.Go(func() { holder.Subscribe(ctx, "story-1", subscriber{}) })
			for len(server.PubSubChannels("")) == 0 {
				time.Sleep(time.Millisecond)
			}
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
			defer rdb.Close()
			other, err := New(rdb, Options{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			want := func() {
				if reply, err := other.NewLease("story-1", "k", 0).Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseBusy {
					t.Errorf("the other replica: %+v, %v", reply, err)
				}
			}
			l, settled := holder.granted(t, "k"), make(chan error, 1)
			if before {
				want()
				for waited := false; !waited; time.Sleep(time.Millisecond) {
					holder.settles.mu.Lock()
					waited = holder.settles.held[entryKey("story-1", "k")]
					holder.settles.mu.Unlock()
				}
			}
			go func() { settled <- l.Publish(t.Context(), answerOf(1), time.Hour) }()
			if !before {
				holder.gathered(1)
				want()
			}
			if err := <-settled; err != nil {
				t.Error(err)
			}
		})
	}
}

// A lease that was taken for an entry which is not as the caller knew it is given back.
func TestALeaseThatWasTakenForNothingIsGivenBack(t *testing.T) {
	s, server := newStore(t)
	if err := s.granted(t, "k").Publish(t.Context(), answerOf(7), time.Hour); err != nil {
		t.Fatal(err)
	}
	for name, judged := range map[string]*cache.Entry{"nothing": nil, "an older entry": answerOf(1)} {
		reply, err := s.NewLease("story-1", "k", 0).Acquire(t.Context(), judged)
		if err != nil || reply.State != cache.LeaseChanged || reply.Entry.Height != 7 {
			t.Errorf("%s was known: %+v, %v", name, reply, err)
		}
		if server.Exists(leaseKey(entryKey("story-1", "k"))) {
			t.Errorf("%s was known: the lease is left", name)
		}
	}
	if reply, err := s.NewLease("story-1", "k", 0).Acquire(t.Context(), answerOf(7)); err != nil || reply.State != cache.LeaseGranted {
		t.Errorf("what is stored was known: %+v, %v", reply, err)
	}
}
