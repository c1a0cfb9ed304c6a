package cache_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A world has two replicas that share a store and read one node.
type world struct {
	replicas map[string]*cache.Cache
	store    *miniredis.Miniredis
	now      atomic.Int64 // seconds
	node     struct {
		height int64
		body   string // "" while the node is down
	}
	calls atomic.Int64
}

func newWorld(t *testing.T) *world {
	w := &world{replicas: map[string]*cache.Cache{}, store: miniredis.RunT(t)}
	w.now.Store(1_750_000_000)
	for _, name := range []string{"A", "B"} {
		w.replicas[name] = newReplica(t, w.store.Addr(), cache.Options{Now: w.clock}, redis.Options{})
	}
	return w
}

func (w *world) clock() time.Time { return time.Unix(w.now.Load(), 0) }

// origin reads the node, and confirms an entry that has not changed.
func (w *world) origin(_ context.Context, prev *cache.Entry) (*cache.Entry, error) {
	w.calls.Add(1)
	if w.node.body == "" {
		return nil, errDown
	}
	if prev != nil && string(prev.Body) == w.node.body {
		return prev.Confirm(w.node.height, w.clock()), nil
	}
	e := entry(w.node.height, w.node.body)
	e.ReadAt = w.clock()
	return e, nil
}

// waitForIdle waits for the background work of both replicas.
func (w *world) waitForIdle(t *testing.T) {
	for _, c := range w.replicas {
		waitForIdle(t, c)
	}
}

// Each step of a scenario sends one query to a replica.
func TestScenariosOfTwoReplicas(t *testing.T) {
	t.Parallel()
	type step struct {
		name      string
		height    int64  // of the node
		body      string // response of the node
		tip       int64
		minHeight int64
		later     int64 // seconds since the previous step
		replica   string
		want      string
		calls     int64 // of the node in this step
	}
	const dead = ""
	scenarios := []struct {
		name  string
		steps []step
	}{
		{"block by block", []step{
			{"first request reads the node", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"next request is served from memory", 100, "a", 100, 0, 0, "A", "hit memory: a at 100", 0},
			{"other replica finds the entry in the shared store", 100, "a", 100, 0, 0, "B", "hit shared: a at 100", 0},
			{"other replica then has it in memory", 100, "a", 100, 0, 0, "B", "hit memory: a at 100", 0},
			{"fresh one block later", 101, "b", 101, 0, 2, "A", "hit memory: a at 100", 0},
			{"read again two blocks later", 102, "b", 102, 0, 2, "A", "miss stale: b at 102", 1},
			{"new entry is in memory", 102, "b", 102, 0, 0, "A", "hit memory: b at 102", 0},
			{"other replica prefers the newer entry of the shared store", 102, "b", 102, 0, 0, "B", "hit shared: b at 102", 0},
			{"other replica then has the newer entry in memory", 102, "b", 102, 0, 0, "B", "hit memory: b at 102", 0},
			{"caller waits for the node after a long pause", 120, "b", 120, 0, 36, "A", "miss stale: b at 120", 1},
			{"other replica finds the confirmation of unchanged content", 120, "b", 120, 0, 0, "B", "hit shared: b at 120", 0},
		}},
		{"the node fails and recovers", []step{
			{"first read", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"stale entry is served when the node fails", 100, dead, 105, 0, 10, "A", "stale memory stale: a at 100", 1},
			{"node is not read again at once", 100, dead, 106, 0, 0, "A", "stale memory: a at 100", 0},
			{"older entry is served after another read failed", 100, dead, 150, 0, 90, "A", "stale_error memory stale: a at 100", 1},
			{"older entry is served at once for a second", 100, dead, 150, 0, 0, "A", "stale_error memory: a at 100", 0},
			{"replica without memory serves the older entry, too", 100, dead, 150, 0, 0, "B", "stale_error shared stale: a at 100", 1},
			{"minimum height above the entry", 100, dead, 150, 120, 2, "A", "node is down", 1},
			{"entry is too old to be served", 100, dead, 201, 0, 2, "A", "node is down", 1},
			{"node has recovered", 202, "b", 202, 0, 2, "A", "miss stale: b at 202", 1},
		}},
		{"the node recovers after callers saw a failure", []step{
			{"first read", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"node fails", 100, dead, 120, 0, 40, "A", "stale_error memory stale: a at 100", 1},
			{"node is not read at once", 120, "b", 120, 0, 0, "A", "stale_error memory: a at 100", 0},
			{"first caller after a second waits for the new entry", 140, "b", 140, 0, 1, "A", "miss stale: b at 140", 1},
		}},
		{"a caller reads its own writes", []step{
			{"first read", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"fresh entry below the minimum height", 101, "b", 101, 101, 0, "A", "miss request: b at 101", 1},
			{"the same on another replica", 102, "c", 102, 102, 0, "B", "miss request: c at 102", 1},
			{"the shared store has an entry at the minimum height", 102, "c", 102, 102, 0, "A", "hit shared: c at 102", 0},
		}},
		{"the tip becomes unknown", []step{
			{"read while the tip is known", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"fresh by its age in seconds", 100, "a", 0, 0, 2, "A", "hit memory: a at 100", 0},
			{"stale by its age in seconds, and read at an unknown height", 0, "b", 0, 0, 10, "A", "miss stale: b at 0", 1},
			{"entry of unknown height replaces the earlier one", 0, "b", 0, 0, 0, "A", "hit memory: b at 0", 0},
			{"the same on another replica", 0, "b", 0, 0, 0, "B", "hit shared: b at 0", 0},
			{"entry of unknown height is stale once the tip is known", 110, "c", 110, 0, 1, "A", "miss stale: c at 110", 1},
			{"entry of unknown height was replaced", 110, "c", 110, 0, 0, "A", "hit memory: c at 110", 0},
		}},
		{"a replica without memory", []step{
			{"first read", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"reads a key that is stale in the shared store", 105, "b", 105, 0, 10, "B", "miss stale: b at 105", 1},
			{"serves the new entry from memory", 105, "b", 105, 0, 0, "B", "hit memory: b at 105", 0},
			{"other replica serves the new entry when the node fails", 105, dead, 110, 0, 10, "A", "stale shared stale: b at 105", 1},
			{"caller waits for the node far behind the tip", 300, "c", 300, 0, 400, "B", "miss stale: c at 300", 1},
		}},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			w := newWorld(t)
			for _, s := range scenario.steps {
				w.now.Add(s.later)
				w.node.height, w.node.body = s.height, s.body
				before := w.calls.Load()
				q := cache.Query{Key: "k", Policy: live, Tip: s.tip, MinHeight: s.minHeight}
				res, err := w.replicas[s.replica].Get(t.Context(), q, originFunc(w.origin))
				w.waitForIdle(t)
				expect.Equal(t, describe(res, err), s.want, "%s: result", s.name)
				expect.Equal(t, w.calls.Load()-before, s.calls, "%s: calls of the node", s.name)
			}
		})
	}
}

// describe returns the outcome, store, reason of the read, body and height of a result, or the error.
func describe(res cache.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	line := string(res.Outcome)
	for _, word := range []string{res.Store, res.Forward} {
		if word != "" {
			line += " " + word
		}
	}
	return fmt.Sprintf("%s: %s at %d", line, res.Entry.Body, res.Entry.Height)
}

func TestUnchangedAnswerIsWrittenWithoutItsBody(t *testing.T) {
	w := newWorld(t)
	w.node.height, w.node.body = 100, string(page)
	mustGet(t, w.replicas["A"], cache.Query{Key: "k", Policy: live, Tip: 100}, w.origin)
	w.waitForIdle(t)
	const key = "tipcache:2:{story-1:k}"
	w.store.HSet(key, "b", "mark") // remains if only the field m is written

	w.node.height = 120
	mustGet(t, w.replicas["A"], cache.Query{Key: "k", Policy: live, Tip: 120}, w.origin)
	w.waitForIdle(t)

	if got := w.store.HGet(key, "b"); got != "mark" {
		t.Error("unchanged body was written again")
	}
	if res := mustGet(t, w.replicas["A"], cache.Query{Key: "k", Policy: live, Tip: 120}, nil); res.Entry.Height != 120 {
		t.Errorf("height = %d, want 120", res.Entry.Height)
	}
	if ttl := w.store.TTL(key); ttl <= time.Hour || ttl > live.Keep {
		t.Errorf("expiry of the key = %v, want more than 1h and at most %v", ttl, live.Keep)
	}
}

func TestEntriesOfChainsAreSeparate(t *testing.T) {
	w := newWorld(t)
	a := w.replicas["A"]
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, a, q, answer(100, []byte("of story-1")))
	waitForIdle(t, a)

	a.SetNamespace("devnet-1")
	if res := mustGet(t, a, q, answer(100, []byte("of devnet-1"))); res.Outcome != cache.Miss {
		t.Errorf("result on another chain = %s, want a miss", describe(res, nil))
	}
	a.SetNamespace("story-1")
	expect.Equal(t, describe(mustGet(t, a, q, nil), nil), "hit shared: of story-1 at 100", "result on the first chain")
}

func TestSharedStoreIsUnusedBeforeChainIsKnown(t *testing.T) {
	store := miniredis.RunT(t)
	c := newSharedCache(t, redistest.Client(t, store.Addr()), cache.Options{}, redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	if keys := store.Keys(); len(keys) > 0 || c.SharedState() != "off" {
		t.Errorf("without a namespace: store %s with keys %q, want off with none", c.SharedState(), keys)
	}
	c.SetNamespace("story-1")
	mustGet(t, c, q, answer(100, page))
	waitForIdle(t, c)
	if len(store.Keys()) != 1 || c.SharedState() != "closed" {
		t.Errorf("with a namespace: store %s with keys %q, want closed with one", c.SharedState(), store.Keys())
	}
}
