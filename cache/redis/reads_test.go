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

func TestReadsThatGoTogetherBringEachCallerItsOwn(t *testing.T) {
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
	if err := server.Set(entryKey("story-1", "8"), "no hash"); err != nil {
		t.Fatal(err)
	}
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
	if hook.most > maxTogether {
		t.Errorf("%d reads went together, want %d at most", hook.most, maxTogether)
	}
	if s.exchanges.underWay != 0 || len(s.exchanges.waiting) != 0 {
		t.Errorf("%d exchanges and %d reads are left", s.exchanges.underWay, len(s.exchanges.waiting))
	}
}

func TestReadsOfASilentStoreAllFail(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer rdb.Close()
	s, err := New(rdb, Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
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
func TestAFullPoolIsNoLostRedis(t *testing.T) {
	s, server := newStore(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, PoolSize: 1, PoolTimeout: time.Millisecond, MaxRetries: -1})
	defer rdb.Close()
	s.rdb = rdb
	taken := rdb.Conn()
	if err := taken.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 * failuresToOpen {
		if _, err := s.Read(t.Context(), "story-1", "key"); err == nil {
			t.Fatal("a read found a connection")
		}
	}
	if got := s.State(); got != "closed" {
		t.Errorf("the breaker is %s", got)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), "story-1", "key"); err != nil {
		t.Errorf("a read with a connection free: %v", err)
	}
}

func TestAReadThatCameTooLateForItsTimeDoesNotTakeFreshOnesWithIt(t *testing.T) {
	s, _ := newStore(t)
	e := &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 1), Height: 100, ReadAt: time.UnixMicro(1)}
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"key": e}, time.Hour)
	s.exchanges.underWay = runtime.GOMAXPROCS(0) // in a stall
	late := newRead("story-1", "key")
	late.due = time.Now()
	if s.exchanges.begin(&late.operation) != nil {
		t.Fatal("a read began beside as many as may")
	}
	fresh := make(chan error, 1)
	s.o.Timeout = time.Minute
	go func() {
		_, err := s.Read(t.Context(), "story-1", "key")
		fresh <- err
	}()
	for n := 0; n < 2; {
		time.Sleep(time.Millisecond)
		s.exchanges.mu.Lock()
		n = len(s.exchanges.waiting)
		s.exchanges.mu.Unlock()
	}
	s.exchanges.end()
	s.doAll(t.Context(), &s.exchanges, <-late.woken)
	if err := <-fresh; err != nil {
		t.Errorf("the fresh read: %v", err)
	}
}

func TestALeaseDoesNotWaitForAnExchangeThatHangs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s, _ := newStore(t)
	letGo := make(chan struct{})
	var hangs sync.WaitGroup
	defer hangs.Wait()
	defer close(letGo)
	hangs.Go(func() {
		_ = s.ask(t.Context(), &operation{single: true, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
			<-letGo
			return to.Ping(ctx)
		}})
	})
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		s.exchanges.mu.Lock()
		begun = s.exchanges.underWay == 1
		s.exchanges.began = time.Now().Add(-young)
		s.exchanges.mu.Unlock()
	}
	s.granted(t, "k")
}

// What no caller waits for goes with what a caller asks, once there is enough of it, or after a while.
func TestOperationsThatNoCallerWaitsForGoTogether(t *testing.T) {
	for name, tt := range map[string]struct {
		patient, more, want int
		within              time.Duration
	}{
		"alone after a while":            {1, 0, 1, patience},
		"several after a while":          {5, 0, 5, patience},
		"not at once":                    {5, 0, 0, 0},
		"with what a caller asks":        {5, 1, 6, 0},
		"at once where they are as many": {enough, 0, enough, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, first, went := &exchanges{}, &operation{gathers: true, patient: true}, 0
				for i := range tt.patient + tt.more {
					o := first
					if i > 0 {
						o = &operation{gathers: true, patient: i < tt.patient}
					}
					went = len(g.begin(o))
				}
				time.Sleep(tt.within)
				synctest.Wait()
				if len(first.woken) > 0 {
					went = len(<-first.woken)
				}
				if went != tt.want {
					t.Errorf("%d operations went together, want %d", went, tt.want)
				}
			})
		})
	}
}
