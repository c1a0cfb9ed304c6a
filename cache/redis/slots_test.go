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

// A hangingNode is a hook that delays the commands of a node until release is closed.
type hangingNode struct {
	redis.Hook
	commands chan string // names of the delayed commands
	release  chan struct{}
}

func (h hangingNode) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hangingNode) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.hang(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (h hangingNode) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.hang(ctx, cmds[0])
		return next(ctx, cmds)
	}
}

// hang delays a command, except the ones that the client sends on its own.
func (h hangingNode) hang(ctx context.Context, cmd redis.Cmder) {
	switch cmd.Name() {
	case "hello", "client", "command":
		return
	}
	h.commands <- cmd.Name()
	select {
	case <-h.release:
	case <-ctx.Done():
	}
}

func TestHangingNodeOfClusterDelaysOnlyCallersOfItsKeys(t *testing.T) {
	healthy, hanging := miniredis.RunT(t), miniredis.RunT(t)
	node := hangingNode{commands: make(chan string, 1000), release: make(chan struct{})}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ContextTimeoutEnabled: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: healthy.Addr()}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: hanging.Addr()}}},
			}, nil
		},
		NewClient: func(o *redis.Options) *redis.Client {
			c := redis.NewClient(o)
			if strings.HasSuffix(o.Addr, ":"+hanging.Port()) {
				c.AddHook(node)
			}
			return c
		},
	})
	defer rdb.Close()
	s := expect.Value(New(rdb, Options{Settings: Settings{Timeout: 20 * time.Second}}))(t)
	var there, elsewhere []string
	for i := range 100 {
		key := fmt.Sprint(i)
		master := expect.Value(rdb.MasterForKey(t.Context(), entryKey("story-1", key)))(t)
		if strings.HasSuffix(master.Options().Addr, ":"+hanging.Port()) {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
	}
	if _, err := s.Read(t.Context(), "story-1", elsewhere[0]); err != nil { // loads the slots of the nodes
		t.Fatal(err)
	}
	var released atomic.Int64
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer close(node.release)
	for _, key := range there {
		waiting.Go(func() {
			_, _ = s.Read(t.Context(), "story-1", key)
			released.Add(1)
		})
	}
	for range min(runtime.GOMAXPROCS(0), len(there)) {
		<-node.commands
	}
	s.batcher.every, s.batcher.last = time.Minute, time.Now().Add(-50*time.Second) // so that a round trip includes due writes
	s.batcher.add(&entryWrite{namespace: "story-1", entry: entryKey("story-1", there[0])})
	for _, key := range elsewhere {
		if _, err := s.Read(t.Context(), "story-1", key); err != nil || released.Load() > 0 {
			t.Fatalf("read of the healthy node: error %v after %d reads of the hanging node, want nil after 0", err, released.Load())
		}
	}
	s.mustAcquire(t, elsewhere[0])
	if released.Load() > 0 {
		t.Error("lease of a key of the healthy node waited for the hanging node")
	}
}

func TestUnreachableClusterIsNotQueriedWhileBreakerIsOpen(t *testing.T) {
	var queries atomic.Int64
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ContextTimeoutEnabled: true,
		ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
			queries.Add(1)
			return nil, errors.New("no node is reachable")
		},
	})
	defer rdb.Close()
	s := expect.Value(New(rdb, Options{}))(t)
	for i := 0; s.State() != "open"; i++ {
		if _, err := s.Read(t.Context(), "story-1", "k"); err == nil || i == 2*failuresToOpen {
			t.Fatalf("read %d: error %v, breaker %s; want errors and an open breaker after %d reads", i+1, err, s.State(), failuresToOpen)
		}
	}
	before := queries.Load()
	for range 3 {
		_, err := s.Read(t.Context(), "story-1", "k")
		expect.ErrorIs(t, err, gobreaker.ErrOpenState, "read while the breaker is open")
	}
	expect.Equal(t, queries.Load()-before, 0, "queries for nodes while the breaker was open")
}
