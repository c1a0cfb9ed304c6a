package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

func entryAt(height int64) *cache.Entry {
	return &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 1), Height: height, ReadAt: time.UnixMicro(height)}
}

// newBatchingStore returns a store that has just sent a write. It batches the next writes until a caller waits for one
// of them.
func newBatchingStore(t *testing.T) (*Store, *miniredis.Miniredis) {
	t.Helper()
	s, server := newStore(t)
	s.batcher.every = time.Hour
	s.batcher.last = time.Now()
	return s, server
}

// tryAcquire returns a lease of a key and the reply to its request, and stops the test on an error.
func (s *Store) tryAcquire(t *testing.T, key string, have *cache.Entry) (cache.Lease, cache.LeaseReply) {
	t.Helper()
	l := s.NewLease("story-1", key, 0, false)
	return l, expect.Value(l.Acquire(t.Context(), have))(t)
}

// mustAcquire returns the lease of a key, and stops the test unless it is granted.
func (s *Store) mustAcquire(t *testing.T, key string) cache.Lease {
	t.Helper()
	l, reply := s.tryAcquire(t, key, nil)
	if reply.State != cache.LeaseGranted {
		t.Fatalf("Acquire of %q = %+v, want granted", key, reply)
	}
	return l
}

// waitForBatch waits until the next batch has n writes.
func (s *Store) waitForBatch(t *testing.T, n int) {
	t.Helper()
	expect.Eventually(t, "the writes are in the batch", func() bool {
		s.batcher.mu.Lock()
		defer s.batcher.mu.Unlock()
		return s.batcher.next != nil && len(s.batcher.next.writes) >= n
	})
}

func TestSingleWriteIsSentAtOnce(t *testing.T) {
	s, _ := newStore(t)
	s.batcher.every = time.Hour
	expect.NoError(t, s.mustAcquire(t, "k").Publish(t.Context(), entryAt(1), time.Hour))
}

// A body that would delay the commands of other callers is not stored. Its lease is released, so that other replicas read
// the origin.
func TestLongBodiesAreNotStored(t *testing.T) {
	random := make([]byte, maxStored) // does not compress
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for name, body := range map[string][]byte{"random": random, "zeros": make([]byte, maxPlain+1)} {
		s, server := newStore(t)
		e := entryAt(1)
		e.Content = cache.NewContent(200, "text/plain", "", body, 1)
		expect.NoError(t, s.mustAcquire(t, "k").Publish(t.Context(), e, time.Hour))
		s.Save(t.Context(), "story-1", map[string]*cache.Entry{"saved": e}, time.Hour)
		if keys := server.Keys(); len(keys) != 0 {
			t.Errorf("%s: keys = %q, want neither entries nor a lease", name, keys)
		}
	}
}

// The stored content changes while a replica reads the content it knows, which is too long to store again.
func TestUnstoredLongBodyReleasesItsLease(t *testing.T) {
	s, server := newStore(t)
	e, at := entryAt(1), entryKey("story-1", "k")
	e.Content = cache.NewContent(200, "text/plain", "", make([]byte, maxPlain+1), 1)
	server.HSet(at, "m", string(s.codec.encodeMeta(at, e)))
	l, _ := s.tryAcquire(t, "k", e)
	other := entryAt(1)
	server.HSet(at, "m", string(s.codec.encodeMeta(at, other)))
	e.Height = 2
	expect.NoError(t, l.Publish(t.Context(), e, time.Hour))
	_, reply := s.tryAcquire(t, "k", other)
	expect.Equal(t, reply.State, cache.LeaseGranted, "state of another replica's lease")
}

// scriptLog is a hook that records the number of writes of each run of the script.
type scriptLog struct {
	redis.Hook
	writes []int
}

func (l *scriptLog) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" {
			l.writes = append(l.writes, args[2].(int)/2)
		}
		return next(ctx, cmd)
	}
}

func (l *scriptLog) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *scriptLog) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// One run of the script writes newer entries, skips an older one and releases an abandoned lease, whether Redis has
// loaded the script or not.
func TestConsecutiveWritesAreBatched(t *testing.T) {
	const writes = 5
	for _, loaded := range []bool{true, false} {
		s, server := newBatchingStore(t)
		server.HSet(entryKey("story-1", "0"), "m", "2 7 7 0 newer 200 1 0\n")
		subscription := server.NewSubscriber()
		defer subscription.Close()
		subscription.Subscribe(channelOf("story-1"))
		messages := &messageLog{}
		if loaded {
			expect.NoError(t, s.write.Load(t.Context(), s.rdb).Err())
		}
		scripts := &scriptLog{}
		var tasks sync.WaitGroup
		for i := range writes {
			l := s.NewLease("story-1", fmt.Sprint(i), 0, false)
			if i > 0 {
				l = s.mustAcquire(t, fmt.Sprint(i))
			}
			tasks.Go(func() {
				write := func() error { return l.Publish(t.Context(), entryAt(1), time.Hour) }
				if i == writes-1 {
					write = func() error { return l.Abandon(t.Context(), false) }
				}
				if err := write(); err != nil {
					t.Errorf("write %d: %v", i, err)
				}
			})
		}
		s.waitForBatch(t, writes)
		s.rdb.AddHook(scripts)
		if e, _ := s.Read(t.Context(), "story-1", "1"); e != nil {
			t.Errorf("Read before the batch is sent = %+v, want nothing", e)
		}
		tasks.Go(func() {
			for len(messages.lines) < writes {
				s.handle("story-1", &redis.Message{Payload: (<-subscription.Messages()).Message}, messages)
			}
		})
		s.NewLease("story-1", "3", 0, false) // the next flight of the key waits for its write
		tasks.Wait()
		expect.NoDiff(t, scripts.writes, []int{writes}, "writes per script")
		for i, want := range []string{"2 7 ", "2 1 ", "2 1 ", "2 1 ", ""} {
			at := entryKey("story-1", fmt.Sprint(i))
			if m := server.HGet(at, "m"); m[:min(len(m), 4)] != want || server.Exists(leaseKey(at)) {
				t.Errorf("write %d stored %q, lease exists = %t; want %q, false", i, m, server.Exists(leaseKey(at)), want)
			}
		}
		slices.Sort(messages.lines)
		expect.NoDiff(t, messages.lines, []string{"0 again: true", "1 at 1", "2 at 1", "3 at 1", "4 again: false"}, "messages")
	}
}

// messageLog records messages about keys.
type messageLog struct {
	nopSubscriber
	lines []string
}

func (l *messageLog) Notify(key string, again bool) {
	l.lines = append(l.lines, fmt.Sprintf("%s again: %v", key, again))
}

func (l *messageLog) Renewed(key string, r cache.Renewal) {
	l.lines = append(l.lines, fmt.Sprintf("%s at %d", key, r.Read(nil).Height))
}

// nopSubscriber ignores all messages except purges.
type nopSubscriber struct{ cache.Subscriber }

func (nopSubscriber) NotifyAll() {}

func (nopSubscriber) Notify(string, bool) {}

func (nopSubscriber) Renewed(string, cache.Renewal) {}

func TestWriteIsSentAtOnceIfCallerOfAnotherReplicaWaits(t *testing.T) {
	for name, before := range map[string]bool{"before the write": true, "after the write was batched": false} {
		t.Run(name, func(t *testing.T) {
			holder, server := newBatchingStore(t)
			ctx, end := context.WithCancel(t.Context())
			var subscription sync.WaitGroup
			defer subscription.Wait()
			defer end()
			subscription.Go(func() { holder.Subscribe(ctx, "story-1", nopSubscriber{}) })
			expect.EventuallyAtLeast(t, "the holder is subscribed", func() int { return len(server.PubSubChannels("")) }, 1)
			other := sealedStore(t, server, "", nil)
			other.o.Timeout = time.Minute
			awaitLease := func() {
				_, reply := other.tryAcquire(t, "k", nil)
				expect.Equal(t, reply.State, cache.LeaseBusy, "state of the lease for the other replica")
			}
			l, written := holder.mustAcquire(t, "k"), make(chan error, 1)
			if before {
				awaitLease()
				expect.Eventually(t, "the holder knows that the other replica waits", func() bool {
					holder.batcher.mu.Lock()
					defer holder.batcher.mu.Unlock()
					return holder.batcher.held[entryKey("story-1", "k")]
				})
			}
			go func() { written <- l.Publish(t.Context(), entryAt(1), time.Hour) }()
			if !before {
				holder.waitForBatch(t, 1)
				awaitLease()
			}
			expect.NoError(t, <-written)
		})
	}
}

// The message that a caller waits has a connection of its own, and so may overtake the reply with the lease.
func TestMessageOfWaitingCallerMayArriveBeforeLease(t *testing.T) {
	holder, _ := newBatchingStore(t)
	message := &redis.Message{Payload: waiterMark + "k"}
	holder.rdb.AddHook(&roundTrips{after: func() { holder.handle("story-1", message, nopSubscriber{}) }})
	holder.mustAcquire(t, "k")
	expect.Equal(t, holder.batcher.held[entryKey("story-1", "k")], true, "holder knows that a caller waits")
}

func TestLeaseOfAnotherReplicaTakesOneRoundTrip(t *testing.T) {
	s, _ := newStore(t)
	s.mustAcquire(t, "k")
	trips := &roundTrips{}
	s.rdb.AddHook(trips)
	_, reply := s.tryAcquire(t, "k", nil)
	expect.Equal(t, reply.State, cache.LeaseBusy, "state of the lease")
	expect.Equal(t, trips.count, 1, "round trips")
}

func TestLeaseOfAnotherReplicaIsShortenedToOwnLimit(t *testing.T) {
	s, server := newStore(t)
	s.mustAcquire(t, "k")
	at := leaseKey(entryKey("story-1", "k"))
	server.SetTTL(at, 30*365*24*time.Hour)
	_, reply := s.tryAcquire(t, "k", nil)
	if reply.State != cache.LeaseBusy || reply.Left != s.o.Lease || server.TTL(at) != s.o.Lease {
		t.Errorf("Acquire = %+v with %s left in Redis, want busy for %s", reply, server.TTL(at), s.o.Lease)
	}
}

func TestLeaseIsRequestedOnceWhileRedisIsDown(t *testing.T) {
	s, server := newStore(t)
	server.Close()
	trips := &roundTrips{}
	s.rdb.AddHook(trips)
	if reply, err := s.NewLease("story-1", "k", 0, false).Acquire(t.Context(), nil); err == nil || trips.count != 1 {
		t.Errorf("Acquire = %+v, %v after %d round trips, want an error after 1", reply, err, trips.count)
	}
}

// A replica that acquires a lease and finds another entry than it knew may decide not to read.
func TestUnusedLeaseIsReleased(t *testing.T) {
	s, server := newStore(t)
	expect.NoError(t, s.mustAcquire(t, "k").Publish(t.Context(), entryAt(7), time.Hour))
	for name, known := range map[string]*cache.Entry{"no entry": nil, "an older entry": entryAt(1)} {
		l, reply := s.tryAcquire(t, "k", known)
		if reply.State != cache.LeaseChanged || reply.Entry.Height != 7 {
			t.Errorf("%s known: Acquire = %+v, want changed to height 7", name, reply)
		}
		again := expect.Value(l.Acquire(t.Context(), reply.Entry))(t)
		expect.Equal(t, again.State, cache.LeaseGranted, "%s known: state of the lease with the stored entry", name)
		expect.NoError(t, l.Abandon(t.Context(), true))
		if server.Exists(leaseKey(entryKey("story-1", "k"))) {
			t.Errorf("%s known: lease still exists", name)
		}
	}
	l := s.NewLease("story-1", "k", 0, false)
	for _, height := range []int64{7, 8} { // the entry changes twice before the release
		s.Save(t.Context(), "story-1", map[string]*cache.Entry{"k": entryAt(height)}, time.Hour)
		reply := expect.Value(l.Acquire(t.Context(), entryAt(height-1)))(t)
		expect.Equal(t, reply.State, cache.LeaseChanged, "state of the lease at height %d", height)
	}
	expect.NoError(t, l.Abandon(t.Context(), true))
	if server.Exists(leaseKey(entryKey("story-1", "k"))) {
		t.Error("lease of an entry that changed twice still exists")
	}
	_, reply := s.tryAcquire(t, "k", entryAt(8))
	expect.Equal(t, reply.State, cache.LeaseGranted, "state of the lease with the stored entry")
}

func TestLeaseTakenFromHolderWithoutExpiryIsReleased(t *testing.T) {
	s, server := newStore(t)
	at := leaseKey(entryKey("story-1", "k"))
	expect.NoError(t, server.Set(at, "another's"))
	expect.NoError(t, s.mustAcquire(t, "k").Abandon(t.Context(), false))
	if server.Exists(at) {
		t.Error("lease still exists")
	}
}

func TestLeaseOfChangedEntryIsReleasedAtOnceIfCallerWaits(t *testing.T) {
	s, _ := newBatchingStore(t)
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"k": entryAt(7)}, time.Hour)
	l, reply := s.tryAcquire(t, "k", nil)
	expect.Equal(t, reply.State, cache.LeaseChanged, "state of the lease")
	s.NewLease("story-1", "k", 0, false) // the next flight of the key waits
	expect.NoError(t, l.Abandon(t.Context(), true))
	l, reply = s.tryAcquire(t, "k", nil)
	expect.Equal(t, reply.State, cache.LeaseChanged, "state of the next lease")
	s.rdb.Set(t.Context(), leaseKey(entryKey("story-1", "k")), "another's", time.Second)
	if reply := expect.Value(l.Acquire(t.Context(), entryAt(7)))(t); reply.State == cache.LeaseGranted {
		t.Errorf("Acquire of a lost lease = %+v, want it not granted", reply)
	}
	if err := l.Abandon(t.Context(), true); err != nil || len(s.batcher.held) != 0 {
		t.Errorf("Abandon = %v, held leases = %v; want nil and none", err, s.batcher.held)
	}
}

func TestRefusedWritesAreAnOutageUntilAnEntryIsStored(t *testing.T) {
	for _, refusal := range []string{"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.", "NOPERM this user has no permissions to run the 'evalsha' command"} {
		s, server := newStore(t)
		checkFailing := func(want bool, when string) {
			t.Helper()
			for _, o := range s.Outages() {
				if got := o.Failing(); o.Name() == "writes to Redis" && got != want {
					t.Errorf("%.8s: failing = %t %s, want %t", refusal, got, when, want)
				}
			}
		}
		publish := func(l cache.Lease) error { return l.Publish(t.Context(), entryAt(1), time.Hour) }
		first, second := s.mustAcquire(t, "first"), s.mustAcquire(t, "second")
		checkFailing(false, "after leases were acquired")
		server.SetError(refusal)
		if _, err := s.NewLease("story-1", "third", 0, false).Acquire(t.Context(), nil); err == nil {
			t.Errorf("Acquire with %.8s: error = nil, want one", refusal)
		}
		checkFailing(true, "after a lease was refused")
		server.SetError("")
		expect.NoError(t, publish(first))
		checkFailing(false, "after an entry was stored")
		server.SetError(refusal)
		if err := publish(second); err == nil {
			t.Errorf("Publish with %.8s: error = nil, want one", refusal)
		}
		checkFailing(true, "after an entry was refused")
	}
}
