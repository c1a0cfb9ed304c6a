package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream/expect"
)

// A hanging node says what it is asked, and answers nothing until it is let go.
type hanging struct {
	redis.Hook
	asked chan string
	letGo chan struct{}
}

func (h hanging) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hanging) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.hang(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (h hanging) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.hang(ctx, cmds[0])
		return next(ctx, cmds)
	}
}

// hang holds up what is for a key: what the client says of itself, and asks of any node, has an answer.
func (h hanging) hang(ctx context.Context, cmd redis.Cmder) {
	switch cmd.Name() {
	case "hello", "client", "command":
		return
	}
	h.asked <- cmd.Name()
	select {
	case <-h.letGo:
	case <-ctx.Done():
	}
}

// A node of a Cluster that hangs holds up those callers alone whose keys it has.
func TestHangingNodeDelaysOnlyCallersOfItsKeys(t *testing.T) {
	well, ill := miniredis.RunT(t), miniredis.RunT(t)
	node := hanging{asked: make(chan string, 1000), letGo: make(chan struct{})}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ContextTimeoutEnabled: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: well.Addr()}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: ill.Addr()}}},
			}, nil
		},
		NewClient: func(o *redis.Options) *redis.Client {
			c := redis.NewClient(o)
			if strings.HasSuffix(o.Addr, ":"+ill.Port()) {
				c.AddHook(node)
			}
			return c
		},
	})
	defer rdb.Close()
	s := expect.Value(New(rdb, Options{Timeout: 20 * time.Second}))(t)
	var there, elsewhere []string
	for i := range 100 {
		key := fmt.Sprint(i)
		master := expect.Value(rdb.MasterForKey(t.Context(), entryKey("story-1", key)))(t)
		if strings.HasSuffix(master.Options().Addr, ":"+ill.Port()) {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
	}
	if _, err := s.Read(t.Context(), "story-1", elsewhere[0]); err != nil { // so that it is known which node has what
		t.Fatal(err)
	}
	var released atomic.Int64
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer close(node.letGo)
	for _, key := range there {
		waiting.Go(func() {
			_, _ = s.Read(t.Context(), "story-1", key)
			released.Add(1)
		})
	}
	for range min(runtime.GOMAXPROCS(0), len(there)) {
		<-node.asked
	}
	s.batcher.every, s.batcher.last = time.Minute, time.Now().Add(-50*time.Second) // so that an exchange takes along what comes now
	s.batcher.add(&entryWrite{namespace: "story-1", entry: entryKey("story-1", there[0])})
	for _, key := range elsewhere {
		if _, err := s.Read(t.Context(), "story-1", key); err != nil || released.Load() > 0 {
			t.Fatalf("read of another node waited or failed: %v", err)
		}
	}
	s.granted(t, elsewhere[0])
	if released.Load() > 0 {
		t.Error("lease of another node waited for the hanging node")
	}
}

// A Cluster that has never answered costs no caller its time once the breaker is open.
func TestUnreachableClusterIsNotQueriedWhileBreakerIsOpen(t *testing.T) {
	var asked atomic.Int64
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ContextTimeoutEnabled: true,
		ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
			asked.Add(1)
			return nil, errors.New("no node answers")
		},
	})
	defer rdb.Close()
	s := expect.Value(New(rdb, Options{}))(t)
	for i := 0; s.State() != "open"; i++ {
		if _, err := s.Read(t.Context(), "story-1", "k"); err == nil || i == 2*failuresToOpen {
			t.Fatalf("read %d: %v, breaker %s", i+1, err, s.State())
		}
	}
	before := asked.Load()
	for range 3 {
		if _, err := s.Read(t.Context(), "story-1", "k"); !errors.Is(err, gobreaker.ErrOpenState) {
			t.Errorf("read while the breaker is open: %v", err)
		}
	}
	expect.Equal(t, asked.Load()-before, 0, "queries for nodes while the breaker was open")
}
