package redis

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

// pipelines notes how many commands went together at the most, and holds what is
// sent until it is let go.
type pipelines struct {
	redis.Hook
	letGo chan struct{}

	mu    sync.Mutex
	most  int
	trips int // exchanges
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-p.letGo
		p.mu.Lock()
		p.trips++
		p.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.mu.Lock()
		p.most = max(p.most, len(cmds))
		p.trips++
		p.mu.Unlock()
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
	hook := &pipelines{letGo: make(chan struct{})}
	s.rdb.AddHook(hook)
	var under sync.WaitGroup
	for i := range callers {
		under.Go(func() {
			e, err := s.Read(t.Context(), "story-1", fmt.Sprint(i))
			switch {
			case err != nil:
				t.Errorf("%d: %v", i, err)
			case i == 7 || i == 8 || i == 9:
				if e != nil {
					t.Errorf("%d: %q, want nothing", i, e.Body)
				}
			case e == nil || string(e.Body) != fmt.Sprintf("body %d", i):
				t.Errorf("%d: %+v", i, e)
			}
		})
	}
	close(hook.letGo)
	under.Wait()
	if hook.most > maxBatch {
		t.Errorf("%d commands in a round trip, want at most %d", hook.most, maxBatch)
	}
	if s.pipeline.active != 0 || len(s.pipeline.waiting) != 0 {
		t.Errorf("%d active and %d waiting, want 0 and 0", s.pipeline.active, len(s.pipeline.waiting))
	}
}

func TestReadsFailIfRedisDoesNotReply(t *testing.T) {
	silent := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer rdb.Close()
	s := expect.Value(New(rdb, Options{Timeout: 50 * time.Millisecond}))(t)
	var under sync.WaitGroup
	for i := range 100 {
		under.Go(func() {
			if e, err := s.Read(t.Context(), "story-1", fmt.Sprint(i)); e != nil || err == nil {
				t.Errorf("%d: %+v, %v; want an error", i, e, err)
			}
		})
	}
	under.Wait()
}

// What finds no connection free did not ask Redis, and says nothing of it.
func TestExhaustedPoolDoesNotOpenBreaker(t *testing.T) {
	s, server := newStore(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, PoolSize: 1, PoolTimeout: time.Millisecond, MaxRetries: -1})
	defer rdb.Close()
	s.rdb = rdb
	taken := rdb.Conn()
	expect.NoError(t, taken.Ping(t.Context()).Err())
	for range 2 * failuresToOpen {
		if _, err := s.Read(t.Context(), "story-1", "key"); err == nil {
			t.Fatal("read succeeded without a free connection")
		}
	}
	expect.Equal(t, s.State(), "closed", "breaker")
	expect.NoError(t, taken.Close())
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
	err := s.run(t.Context(), o)
	if err != nil || o.due.Before(start.Add(2*s.o.Timeout)) || o.due.After(time.Now().Add(2*s.o.Timeout)) {
		t.Errorf("run = %v, due %v after its start; want nil and %v", err, o.due.Sub(start), 2*s.o.Timeout)
	}
}

func TestExpiredReadDoesNotFailNewerReads(t *testing.T) {
	s, _ := newStore(t)
	e := &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 1), Height: 100, ReadAt: time.UnixMicro(1)}
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"key": e}, time.Hour)
	s.pipeline.active = runtime.GOMAXPROCS(0) // in a stall
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
	for n := 0; n < 2; {
		time.Sleep(time.Millisecond)
		s.pipeline.mu.Lock()
		n = len(s.pipeline.waiting)
		s.pipeline.mu.Unlock()
	}
	s.pipeline.end()
	s.runBatch(t.Context(), &s.pipeline, <-late.ready)
	expect.NoError(t, <-fresh)
}

func TestLeaseDoesNotWaitForHangingRoundTrip(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s, _ := newStore(t)
	letGo := make(chan struct{})
	var hangs sync.WaitGroup
	defer hangs.Wait()
	defer close(letGo)
	hangs.Go(func() {
		_ = s.run(t.Context(), &command{single: true, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
			<-letGo
			return to.Ping(ctx)
		}})
	})
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		s.pipeline.mu.Lock()
		begun = s.pipeline.active == 1
		s.pipeline.started = time.Now().Add(-hangTime)
		s.pipeline.mu.Unlock()
	}
	s.granted(t, "k")
}

// What no caller waits for goes with what a caller asks, once there is backgroundBatch of it, or after a while.
func TestBackgroundCommandsAreBatched(t *testing.T) {
	for name, tt := range map[string]struct {
		background, more, want int
		within                 time.Duration
	}{
		"alone after a while":            {1, 0, 1, backgroundWait},
		"several after a while":          {5, 0, 5, backgroundWait},
		"not at once":                    {5, 0, 0, 0},
		"with what a caller asks":        {5, 1, 6, 0},
		"at once where they are as many": {backgroundBatch, 0, backgroundBatch, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, first, went := &pipeline{}, &command{batches: true, background: true}, 0
				for i := range tt.background + tt.more {
					o := first
					if i > 0 {
						o = &command{batches: true, background: i < tt.background}
					}
					went = len(g.begin(o))
				}
				time.Sleep(tt.within)
				synctest.Wait()
				if len(first.ready) > 0 {
					went = len(<-first.ready)
				}
				expect.Equal(t, went, tt.want, "commands in the batch")
			})
		})
	}
}

func TestPurgeRemovesSelectedEntries(t *testing.T) {
	s, server := newStore(t)
	e := &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 1), Height: 100, ReadAt: time.UnixMicro(1)}
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"a/1": e, "a/2": e, "b/1": e}, time.Hour)
	s.Save(t.Context(), "other-1", map[string]*cache.Entry{"a/1": e}, time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if n, err := s.Purge(ctx, "story-1", cache.Selection{Prefix: "a/"}); n != 2 || err != nil {
		t.Errorf("Purge = %d, %v; want 2, nil", n, err)
	}
	if keys := server.Keys(); len(keys) != 2 {
		t.Errorf("keys = %q, want b/1 of story-1 and a/1 of other-1", keys)
	}
}
