package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

func answerOf(height int64) *cache.Entry {
	return &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 1), Height: height, ReadAt: time.UnixMicro(height)}
}

// gathering returns a store that has just settled an answer, and batches those after it for as long
// as nobody waits for one.
func gathering(t *testing.T) (*Store, *miniredis.Miniredis) {
	t.Helper()
	s, server := newStore(t)
	s.batcher.every = time.Hour
	s.batcher.last = time.Now()
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
		s.batcher.mu.Lock()
		if s.batcher.next != nil {
			got = len(s.batcher.next.writes)
		}
		s.batcher.mu.Unlock()
	}
}

func TestSingleWriteIsSentAtOnce(t *testing.T) {
	s, _ := newStore(t)
	s.batcher.every = time.Hour
	expect.NoError(t, s.granted(t, "k").Publish(t.Context(), answerOf(1), time.Hour))
}

// scripts notes of how many entries scripts were.
type scripts struct {
	redis.Hook
	of []int
}

func (n *scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" {
			n.of = append(n.of, args[2].(int)/2)
		}
		return next(ctx, cmd)
	}
}

func (n *scripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// One run of the script, and one message, for entries that are newer, one that is not, and a lease of
// which nothing came. A store that has forgotten the script is told of it for each.
func TestConsecutiveWritesAreBatched(t *testing.T) {
	const answers = 5
	for _, known := range []bool{true, false} {
		s, server := gathering(t)
		server.HSet(entryKey("story-1", "0"), "m", "1 7 7 0 newer 200 1\n")
		told := server.NewSubscriber()
		defer told.Close()
		told.Subscribe(channelOf("story-1"))
		heard := &heard{}
		if known {
			expect.NoError(t, s.write.Load(t.Context(), s.rdb).Err())
		}
		hook := &scripts{}
		var under sync.WaitGroup
		for i := range answers {
			l := s.NewLease("story-1", fmt.Sprint(i), 0)
			if i > 0 {
				l = s.granted(t, fmt.Sprint(i))
			}
			under.Go(func() {
				settle := func() error { return l.Publish(t.Context(), answerOf(1), time.Hour) }
				if i == answers-1 {
					settle = func() error { return l.Abandon(t.Context(), false) }
				}
				if err := settle(); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		s.gathered(answers)
		s.rdb.AddHook(hook)
		if e, _ := s.Read(t.Context(), "story-1", "1"); e != nil {
			t.Error("write returned before its batch")
		}
		under.Go(func() {
			for len(heard.all) < answers {
				s.handle("story-1", &redis.Message{Payload: (<-told.Messages()).Message}, heard)
			}
		})
		s.NewLease("story-1", "3", 0) // of the flight that comes next
		under.Wait()
		if !slices.Equal(hook.of, []int{answers}) {
			t.Errorf("scripts had %d writes, want one with %d", hook.of, answers)
		}
		for i, want := range []string{"1 7 ", "1 1 ", "1 1 ", "1 1 ", ""} {
			at := entryKey("story-1", fmt.Sprint(i))
			if m := server.HGet(at, "m"); m[:min(len(m), 4)] != want || server.Exists(leaseKey(at)) {
				t.Errorf("%d: stored %q, lease exists = %v", i, m, server.Exists(leaseKey(at)))
			}
		}
		slices.Sort(heard.all)
		expect.NoDiff(t, heard.all, []string{"0 again: true", "1 at 1", "2 at 1", "3 at 1", "4 again: false"}, "messages")
	}
}

func TestDueWritesJoinNextRoundTrip(t *testing.T) {
	s, server := gathering(t)
	s.batcher.last = time.Now().Add(-s.batcher.every + s.batcher.every/(2*piggyback))
	settled := make(chan error, 1)
	l := s.granted(t, "k")
	go func() { settled <- l.Publish(t.Context(), answerOf(1), time.Hour) }()
	s.gathered(1)
	hook := &pipelines{letGo: make(chan struct{})}
	close(hook.letGo)
	s.rdb.AddHook(hook)
	if e, err := s.Read(t.Context(), "story-1", "another"); e != nil || err != nil {
		t.Errorf("other key: %+v, %v", e, err)
	}
	if err := <-settled; err != nil || hook.most != 2 {
		t.Errorf("error %v, %d commands in the round trip, want 2", err, hook.most)
	}
	if !server.Exists(entryKey("story-1", "k")) {
		t.Error("entry was not stored")
	}
}

// heard notes what it is told of keys.
type heard struct {
	subscriber
	all []string
}

func (h *heard) Notify(key string, again bool) {
	h.all = append(h.all, fmt.Sprintf("%s again: %v", key, again))
}

func (h *heard) Renewed(key string, r cache.Renewal) {
	h.all = append(h.all, fmt.Sprintf("%s at %d", key, r.Read(nil).Height))
}

// subscriber hears nothing of interest.
type subscriber struct{ cache.Subscriber }

func (subscriber) NotifyAll() {}

func (subscriber) Notify(string, bool) {}

func (subscriber) Renewed(string, cache.Renewal) {}

func TestWriteIsSentAtOnceIfCallerOfAnotherReplicaWaits(t *testing.T) {
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
			other := expect.Value(New(rdb, Options{Timeout: time.Minute}))(t)
			want := func() {
				if reply, err := other.NewLease("story-1", "k", 0).Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseBusy {
					t.Errorf("other replica: %+v, %v", reply, err)
				}
			}
			l, settled := holder.granted(t, "k"), make(chan error, 1)
			if before {
				want()
				for waited := false; !waited; time.Sleep(time.Millisecond) {
					holder.batcher.mu.Lock()
					waited = holder.batcher.held[entryKey("story-1", "k")]
					holder.batcher.mu.Unlock()
				}
			}
			go func() { settled <- l.Publish(t.Context(), answerOf(1), time.Hour) }()
			if !before {
				holder.gathered(1)
				want()
			}
			expect.NoError(t, <-settled)
		})
	}
}

func TestLeaseOfAnotherReplicaTakesTwoRoundTrips(t *testing.T) {
	s, _ := newStore(t)
	s.granted(t, "k")
	hook := &pipelines{letGo: make(chan struct{})}
	close(hook.letGo)
	s.rdb.AddHook(hook)
	if reply, err := s.NewLease("story-1", "k", 0).Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseBusy || hook.trips != 2 {
		t.Errorf("Acquire = %+v, %v after %d round trips", reply, err, hook.trips)
	}
}

func TestLeaseOfAnotherReplicaIsShortenedToOwnLimit(t *testing.T) {
	s, server := newStore(t)
	s.granted(t, "k")
	at := leaseKey(entryKey("story-1", "k"))
	server.SetTTL(at, 10*s.o.Lease)
	reply, err := s.NewLease("story-1", "k", 0).Acquire(t.Context(), nil)
	if err != nil || reply.State != cache.LeaseBusy || reply.Left != s.o.Lease || server.TTL(at) != s.o.Lease {
		t.Errorf("Acquire = %+v, %v with %s left in Redis, want busy for %s", reply, err, server.TTL(at), s.o.Lease)
	}
}

func TestLeaseIsRequestedOnceWhileRedisIsDown(t *testing.T) {
	s, server := newStore(t)
	server.Close()
	hook := &pipelines{letGo: make(chan struct{})}
	close(hook.letGo)
	s.rdb.AddHook(hook)
	if reply, err := s.NewLease("story-1", "k", 0).Acquire(t.Context(), nil); err == nil || hook.trips != 1 {
		t.Errorf("Acquire = %+v, %v after %d exchanges, want an error after 1 round trip", reply, err, hook.trips)
	}
}

// A lease that was taken for an entry which is not as the caller knew it is given back.
func TestUnusedLeaseIsReleased(t *testing.T) {
	s, server := newStore(t)
	expect.NoError(t, s.granted(t, "k").Publish(t.Context(), answerOf(7), time.Hour))
	for name, judged := range map[string]*cache.Entry{"nothing": nil, "an older entry": answerOf(1)} {
		l := s.NewLease("story-1", "k", 0)
		reply, err := l.Acquire(t.Context(), judged)
		if err != nil || reply.State != cache.LeaseChanged || reply.Entry.Height != 7 {
			t.Errorf("%s was known: %+v, %v", name, reply, err)
		}
		if again, err := l.Acquire(t.Context(), reply.Entry); err != nil || again.State != cache.LeaseGranted {
			t.Errorf("%s was known, then the stored entry: %+v, %v", name, again, err)
		}
		expect.NoError(t, l.Abandon(t.Context(), true))
		if server.Exists(leaseKey(entryKey("story-1", "k"))) {
			t.Errorf("%s was known: lease still exists", name)
		}
	}
	l := s.NewLease("story-1", "k", 0)
	for _, height := range []int64{7, 8} { // twice in a row, before it is given back
		s.Save(t.Context(), "story-1", map[string]*cache.Entry{"k": answerOf(height)}, time.Hour)
		if reply, err := l.Acquire(t.Context(), answerOf(height-1)); err != nil || reply.State != cache.LeaseChanged {
			t.Errorf("at %d: %+v, %v", height, reply, err)
		}
	}
	if err := l.Abandon(t.Context(), true); err != nil || server.Exists(leaseKey(entryKey("story-1", "k"))) {
		t.Errorf("lease still exists, error %v", err)
	}
	if reply, err := s.NewLease("story-1", "k", 0).Acquire(t.Context(), answerOf(8)); err != nil || reply.State != cache.LeaseGranted {
		t.Errorf("stored entry was known: %+v, %v", reply, err)
	}
}

func TestLeaseTakenFromHolderWithoutExpiryIsReleased(t *testing.T) {
	s, server := newStore(t)
	at := leaseKey(entryKey("story-1", "k"))
	expect.NoError(t, server.Set(at, "another's"))
	expect.NoError(t, s.granted(t, "k").Abandon(t.Context(), false))
	if server.Exists(at) {
		t.Error("lease still exists")
	}
}

func TestLeaseOfChangedEntryIsReleasedAtOnceIfCallerWaits(t *testing.T) {
	s, _ := gathering(t)
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"k": answerOf(7)}, time.Hour)
	l := s.NewLease("story-1", "k", 0)
	if reply, err := l.Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseChanged {
		t.Fatalf("%+v, %v", reply, err)
	}
	s.NewLease("story-1", "k", 0) // of the flight that comes next
	expect.NoError(t, l.Abandon(t.Context(), true))
	l = s.NewLease("story-1", "k", 0)
	if reply, err := l.Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseChanged {
		t.Fatalf("%+v, %v", reply, err)
	}
	s.rdb.Set(t.Context(), leaseKey(entryKey("story-1", "k")), "another's", time.Second)
	if reply, err := l.Acquire(t.Context(), answerOf(7)); err != nil || reply.State == cache.LeaseGranted {
		t.Errorf("lost lease: %+v, %v", reply, err)
	}
	if err := l.Abandon(t.Context(), true); err != nil || len(s.batcher.held) != 0 {
		t.Errorf("error %v, held leases %v", err, s.batcher.held)
	}
}

func TestRefusedWritesAreAnOutageUntilAnEntryIsStored(t *testing.T) {
	for _, refusal := range []string{"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.", "NOPERM this user has no permissions to run the 'evalsha' command"} {
		s, server := newStore(t)
		failing := func(want bool, when string) {
			t.Helper()
			for _, o := range s.Outages() {
				if got := o.Failing(); o.Name() == "writes to Redis" && got != want {
					t.Errorf("failing = %t %s, want %t", got, when, want)
				}
			}
		}
		publish := func(l cache.Lease) error { return l.Publish(t.Context(), answerOf(1), time.Hour) }
		first, second := s.granted(t, "first"), s.granted(t, "second")
		failing(false, "after leases were acquired")
		server.SetError(refusal)
		if _, err := s.NewLease("story-1", "third", 0).Acquire(t.Context(), nil); err == nil {
			t.Error("Acquire = nil without memory, want an error")
		}
		failing(true, "after a lease was refused")
		server.SetError("")
		expect.NoError(t, publish(first))
		failing(false, "after an entry was stored")
		server.SetError(refusal)
		if err := publish(second); err == nil {
			t.Error("Publish = nil without memory, want an error")
		}
		failing(true, "after an entry was refused")
	}
}
