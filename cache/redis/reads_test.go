package redis

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

// roundTrips is a hook that counts round trips, and the most commands of one of them.
type roundTrips struct {
	redis.Hook
	release chan struct{} // if not nil, single commands wait until it is closed
	after   func()        // if not nil, runs between the reply to a single command and its caller

	mu    sync.Mutex
	count int
	most  int
}

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.release != nil {
			<-r.release
		}
		r.mu.Lock()
		r.count++
		r.mu.Unlock()
		if r.after != nil {
			defer r.after()
		}
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.mu.Lock()
		r.most = max(r.most, len(cmds))
		r.count++
		r.mu.Unlock()
		return next(ctx, cmds)
	}
}

func TestBatchedReadsReturnEachCallersEntry(t *testing.T) {
	s, server := newStore(t)
	s.o.Timeout = time.Minute
	const callers = 200
	entries := map[string]*cache.Entry{}
	for i := range callers {
		body := []byte(fmt.Sprintf("body %d", i))
		entries[fmt.Sprint(i)] = &cache.Entry{Content: cache.NewContent(200, "text/plain", "", body, 1), Height: 100, ReadAt: time.UnixMicro(1)}
	}
	s.Save(t.Context(), "story-1", entries, time.Hour)
	server.Del(entryKey("story-1", "7"))
	server.Del(entryKey("story-1", "8"))
	expect.NoError(t, server.Set(entryKey("story-1", "8"), "no hash"))
	server.HSet(entryKey("story-1", "9"), "m", "nonsense")
	trips := &roundTrips{release: make(chan struct{})}
	s.rdb.AddHook(trips)
	var reads sync.WaitGroup
	for i := range callers {
		reads.Go(func() {
			e, err := s.Read(t.Context(), "story-1", fmt.Sprint(i))
			switch want := fmt.Sprintf("body %d", i); {
			case err != nil:
				t.Errorf("Read(%d): %v", i, err)
			case i == 7 || i == 8 || i == 9:
				if e != nil {
					t.Errorf("Read(%d) = %q, want nothing", i, e.Body)
				}
			case e == nil || string(e.Body) != want:
				t.Errorf("Read(%d) = %+v, want %s", i, e, want)
			}
		})
	}
	close(trips.release)
	reads.Wait()
	if trips.most > maxBatch {
		t.Errorf("commands in a round trip = %d, want at most %d", trips.most, maxBatch)
	}
	expect.Equal(t, s.pipeline.active, 0, "active round trips")
	expect.Equal(t, len(s.pipeline.waiting), 0, "waiting commands")
}

func TestWaitingCommandsAreSentWithANewOneUpToABatch(t *testing.T) {
	waiting := slices.Repeat([]*command{{}}, 2*maxBatch)
	g, newer := &pipeline{waiting: slices.Clone(waiting)}, &command{}
	batch := g.begin(newer)
	if len(batch) != maxBatch || batch[maxBatch-1] != newer || len(g.waiting) != maxBatch+1 {
		t.Errorf("commands sent = %d, and %d waiting; want %d with the new one as the last, and %d", len(batch), len(g.waiting), maxBatch, maxBatch+1)
	}
}

func TestReadsFailIfRedisDoesNotReply(t *testing.T) {
	silent := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer rdb.Close()
	s := expect.Value(New(rdb, Options{Settings: Settings{Timeout: 50 * time.Millisecond}}))(t)
	var reads sync.WaitGroup
	for i := range 100 {
		reads.Go(func() {
			if e, err := s.Read(t.Context(), "story-1", fmt.Sprint(i)); e != nil || err == nil {
				t.Errorf("Read(%d) = %+v, %v; want an error", i, e, err)
			}
		})
	}
	reads.Wait()
}

// A command that gets no connection was not sent, so it is no failure of Redis.
func TestExhaustedPoolDoesNotOpenBreaker(t *testing.T) {
	s, server := newStore(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, PoolSize: 1, PoolTimeout: time.Millisecond, MaxRetries: -1})
	defer rdb.Close()
	s.rdb = rdb
	only := rdb.Conn()
	expect.NoError(t, only.Ping(t.Context()).Err())
	for range 2 * failuresToOpen {
		if _, err := s.Read(t.Context(), "story-1", "key"); err == nil {
			t.Fatal("read succeeded without a free connection")
		}
	}
	expect.Equal(t, s.State(), "closed", "breaker")
	expect.NoError(t, only.Close())
	if _, err := s.Read(t.Context(), "story-1", "key"); err != nil {
		t.Errorf("read with a free connection: %v", err)
	}
}

func TestCommandsHaveADeadline(t *testing.T) {
	s, _ := newStore(t)
	o := &command{send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		if due, ok := ctx.Deadline(); !ok || time.Until(due) > s.o.Timeout {
			t.Errorf("deadline of the round trip in %v (%t), want at most %v", time.Until(due), ok, s.o.Timeout)
		}
		return to.Ping(ctx)
	}}
	start := time.Now()
	err := s.pipe(t.Context(), o)
	if err != nil || o.due.Before(start.Add(2*s.o.Timeout)) || o.due.After(time.Now().Add(2*s.o.Timeout)) {
		t.Errorf("pipe = %v, due %v after its start; want nil and %v", err, o.due.Sub(start), 2*s.o.Timeout)
	}
}

func TestExpiredReadDoesNotFailNewerReads(t *testing.T) {
	s, _ := newStore(t)
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"key": entryAt(100)}, time.Hour)
	s.pipeline.active = runtime.GOMAXPROCS(0) // all round trips hang
	late := newRead("story-1", "key")
	late.due = time.Now()
	if s.pipeline.begin(&late.command) != nil {
		t.Fatal("begin started a read beyond the limit")
	}
	fresh := make(chan error, 1)
	s.o.Timeout = time.Minute
	go func() {
		_, err := s.Read(t.Context(), "story-1", "key")
		fresh <- err
	}()
	expect.Eventually(t, "both reads wait", func() bool {
		s.pipeline.mu.Lock()
		defer s.pipeline.mu.Unlock()
		return len(s.pipeline.waiting) == 2
	})
	s.pipeline.end()
	s.runBatch(t.Context(), &s.pipeline, <-late.ready)
	expect.NoError(t, <-fresh)
}

func TestLeaseDoesNotWaitForHangingRoundTrip(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s, _ := newStore(t)
	release := make(chan struct{})
	var hanging sync.WaitGroup
	defer hanging.Wait()
	defer close(release)
	hanging.Go(func() {
		_ = s.pipe(t.Context(), &command{single: true, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
			<-release
			return to.Ping(ctx)
		}})
	})
	expect.Eventually(t, "the round trip hangs", func() bool {
		s.pipeline.mu.Lock()
		defer s.pipeline.mu.Unlock()
		s.pipeline.started = time.Now().Add(-batchWait)
		return s.pipeline.active == 1
	})
	s.mustAcquire(t, "k")
}

// Background commands are sent with the next command of a caller, when there are backgroundBatch of them, or after
// backgroundWait.
func TestBackgroundCommandsAreBatched(t *testing.T) {
	for name, tt := range map[string]struct {
		background, foreground, want int
		after                        time.Duration
	}{
		"one after the wait":         {1, 0, 1, backgroundWait},
		"several after the wait":     {5, 0, 5, backgroundWait},
		"several before the wait":    {5, 0, 0, 0},
		"with a caller's command":    {5, 1, 6, 0},
		"a full batch, without wait": {backgroundBatch, 0, backgroundBatch, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, first, sent := &pipeline{}, &command{background: true}, 0
				for i := range tt.background + tt.foreground {
					c := first
					if i > 0 {
						c = &command{background: i < tt.background}
					}
					sent = len(p.begin(c))
				}
				time.Sleep(tt.after)
				synctest.Wait()
				if len(first.ready) > 0 {
					sent = len(<-first.ready)
				}
				expect.Equal(t, sent, tt.want, "commands in the batch")
			})
		})
	}
}

func TestBackgroundCommandDoesNotWaitForHangingRoundTrip(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		p := &pipeline{}
		p.begin(&command{}) // its round trip never ends
		caller := &command{batched: true}
		p.begin(caller)
		time.Sleep(batchWait)
		p.begin(&command{batched: true, background: true})
		time.Sleep(backgroundWait)
		synctest.Wait()
		expect.Equal(t, len(caller.ready), 1, "batches with the waiting caller's command")
	})
}

// A command that a round trip has sent does not shorten the wait of a later one.
func TestBackgroundCommandWaitsForItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipeline{}
		p.begin(&command{background: true})
		p.begin(&command{}) // sends both
		p.end()
		time.Sleep(backgroundWait / 2)
		later := &command{background: true}
		p.begin(later)
		time.Sleep(backgroundWait / 2)
		synctest.Wait()
		expect.Equal(t, len(later.ready), 0, "batches before the later command has waited")
		time.Sleep(backgroundWait / 2)
		synctest.Wait()
		expect.Equal(t, len(later.ready), 1, "batches after the later command has waited")
	})
}

func TestPurgeRemovesSelectedEntries(t *testing.T) {
	s, server := newStore(t)
	e := entryAt(100)
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"a/1": e, "a/2": e, "b/1": e}, time.Hour)
	s.Save(t.Context(), "other-1", map[string]*cache.Entry{"a/1": e}, time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.Save(t.Context(), "story-1:2", map[string]*cache.Entry{"a/1": e}, time.Hour)
	s.Save(t.Context(), "", map[string]*cache.Entry{"a/1": e, "b/1": e}, time.Hour)
	if n, err := s.Purge(ctx, cache.Selection{Prefix: "a/"}, "", "story-1"); n != 3 || err != nil {
		t.Errorf("Purge = %d, %v; want 3, nil", n, err)
	}
	want := []string{"tipcache:2:{:b/1}", "tipcache:2:{other-1:a/1}", "tipcache:2:{story-1%3A2:a/1}", "tipcache:2:{story-1:b/1}"}
	expect.NoDiff(t, server.Keys(), want, "keys left in Redis")
}
