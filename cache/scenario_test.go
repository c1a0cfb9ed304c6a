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
)

// world is two replicas behind one shared store and in front of one node.
type world struct {
	replicas map[string]*cache.Cache
	store    *miniredis.Miniredis
	now      atomic.Int64 // seconds
	node     struct {
		height int64
		body   string // "" = the node is down
	}
	calls atomic.Int64
}

func newWorld(t *testing.T) *world {
	w := &world{replicas: map[string]*cache.Cache{}, store: miniredis.RunT(t)}
	w.now.Store(1_750_000_000)
	for _, name := range []string{"A", "B"} {
		c := named(t, w.store.Addr(), cache.Options{Now: w.clock}, redis.Options{})
		w.replicas[name] = c
	}
	return w
}

func (w *world) clock() time.Time { return time.Unix(w.now.Load(), 0) }

// origin reads the node, and confirms what has not changed.
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

// rest waits for the flights in the background.
func (w *world) rest(t *testing.T) {
	for _, c := range w.replicas {
		idle(t, c)
	}
}

// Each scenario is told step by step, in one world. A step asks one replica.
func TestStories(t *testing.T) {
	t.Parallel()
	type step struct {
		name   string
		height int64  // of the node
		body   string // what the node says
		tip    int64  // what the caller knows
		least  int64  // lowest height the caller takes
		later  int64  // seconds since the step before
		ask    string // the replica
		want   string
		calls  int64 // of the node, in this step
	}
	const dead = ""
	scenarios := []struct {
		name  string
		steps []step
	}{
		{"block by block", []step{
			{"the first request asks the node", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"the next one is served from memory", 100, "a", 100, 0, 0, "A", "hit memory: a at 100", 0},
			{"another replica finds it in the shared store", 100, "a", 100, 0, 0, "B", "hit shared: a at 100", 0},
			{"and has it in memory from then on", 100, "a", 100, 0, 0, "B", "hit memory: a at 100", 0},
			{"one block later it is still fresh", 101, "b", 101, 0, 2, "A", "hit memory: a at 100", 0},
			{"two blocks later it is read anew", 102, "b", 102, 0, 2, "A", "miss stale: b at 102", 1},
			{"for the next request, too", 102, "b", 102, 0, 0, "A", "hit memory: b at 102", 0},
			{"the other replica does not serve its own, and finds it in the shared store", 102, "b", 102, 0, 0, "B", "hit shared: b at 102", 0},
			{"so that nobody asks the node again", 102, "b", 102, 0, 0, "B", "hit memory: b at 102", 0},
			{"after a long pause the node is waited for", 120, "b", 120, 0, 36, "A", "miss stale: b at 120", 1},
			{"and what did not change is confirmed to the others", 120, "b", 120, 0, 0, "B", "hit shared: b at 120", 0},
		}},
		{"the node dies and comes back", []step{
			{"all is well", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"the node is dead, a stale entry is served", 100, dead, 105, 0, 10, "A", "stale memory stale: a at 100", 1},
			{"it is not asked again at once", 100, dead, 106, 0, 0, "A", "stale memory: a at 100", 0},
			{"an old entry stands in after a try", 100, dead, 150, 0, 90, "A", "stale_error memory stale: a at 100", 1},
			{"and does so without even asking for a moment", 100, dead, 150, 0, 0, "A", "stale_error memory: a at 100", 0},
			{"a replica without memory finds a stand-in too", 100, dead, 150, 0, 0, "B", "stale_error shared stale: a at 100", 1},
			{"a caller that needs more gets the error", 100, dead, 150, 120, 2, "A", "node is down", 1},
			{"nothing stands in for ever", 100, dead, 201, 0, 2, "A", "node is down", 1},
			{"the node is back", 202, "b", 202, 0, 2, "A", "miss stale: b at 202", 1},
		}},
		{"the node comes back after callers saw it fail", []step{
			{"there is an entry", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"the node is dead", 100, dead, 120, 0, 40, "A", "stale_error memory stale: a at 100", 1},
			{"a moment later it is not asked", 120, "b", 120, 0, 0, "A", "stale_error memory: a at 100", 0},
			{"the first caller after that gets its answer", 140, "b", 140, 0, 1, "A", "miss stale: b at 140", 1},
		}},
		{"a caller reads its own writes", []step{
			{"there is an entry", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"fresh to others, too low for the writer", 101, "b", 101, 101, 0, "A", "miss request: b at 101", 1},
			{"on another replica too", 102, "c", 102, 102, 0, "B", "miss request: c at 102", 1},
			{"where the shared store is high enough it serves", 102, "c", 102, 102, 0, "A", "hit shared: c at 102", 0},
		}},
		{"the tip gets lost", []step{
			{"read while it was known", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"seconds count: fresh", 100, "a", 0, 0, 2, "A", "hit memory: a at 100", 0},
			{"seconds count: stale, read anew at an unknown height", 0, "b", 0, 0, 10, "A", "miss stale: b at 0", 1},
			{"which was read later, so it replaces the known one", 0, "b", 0, 0, 0, "A", "hit memory: b at 0", 0},
			{"also on other replicas", 0, "b", 0, 0, 0, "B", "hit shared: b at 0", 0},
			{"known again: what is of unknown height is not served", 110, "c", 110, 0, 1, "A", "miss stale: c at 110", 1},
			{"and is replaced", 110, "c", 110, 0, 0, "A", "hit memory: c at 110", 0},
		}},
		{"a cold replica", []step{
			{"there is an entry", 100, "a", 100, 0, 0, "A", "miss uri-miss: a at 100", 1},
			{"reads anew what is stale in the shared store", 105, "b", 105, 0, 10, "B", "miss stale: b at 105", 1},
			{"which the next request sees", 105, "b", 105, 0, 0, "B", "hit memory: b at 105", 0},
			{"serves that where the node fails", 105, dead, 110, 0, 10, "A", "stale shared stale: b at 105", 1},
			{"far behind, the node is waited for", 300, "c", 300, 0, 400, "B", "miss stale: c at 300", 1},
		}},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			w := newWorld(t)
			for _, s := range scenario.steps {
				w.now.Add(s.later)
				w.node.height, w.node.body = s.height, s.body
				before := w.calls.Load()
				q := cache.Query{Key: "k", Policy: live, Tip: s.tip, MinHeight: s.least}
				res, err := w.replicas[s.ask].Get(t.Context(), q, w.origin)
				w.rest(t)
				if got := tell(res, err); got != s.want {
					t.Errorf("%s:\n got %s\nwant %s", s.name, got, s.want)
				}
				if got := w.calls.Load() - before; got != s.calls {
					t.Errorf("%s: the node was asked %d times, want %d", s.name, got, s.calls)
				}
			}
		})
	}
}

// tell puts a result in one line.
func tell(res cache.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	line := res.Outcome.String()
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
	w.rest(t)
	key := onlyKey(t, w.store)
	// A body that could not have been written: it stays if only m is.
	w.store.HSet(key, "b", "mark")

	w.node.height = 120
	mustGet(t, w.replicas["A"], cache.Query{Key: "k", Policy: live, Tip: 120}, w.origin)
	w.rest(t)

	if got := w.store.HGet(key, "b"); got != "mark" {
		t.Error("unchanged body was written again")
	}
	if res := mustGet(t, w.replicas["A"], cache.Query{Key: "k", Policy: live, Tip: 120}, nil); res.Entry.Height != 120 {
		t.Errorf("holds at %d, want 120", res.Entry.Height)
	}
	if ttl := w.store.TTL(key); ttl <= time.Hour || ttl > live.Keep {
		t.Errorf("the key expires in %v, want %v", ttl, live.Keep)
	}
}

func TestEntriesOfChainsAreSeparate(t *testing.T) {
	w := newWorld(t)
	a := w.replicas["A"]
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, a, q, answer(100, []byte("of story-1")))
	idle(t, a)

	a.SetNamespace("devnet-1")
	if res := mustGet(t, a, q, answer(100, []byte("of devnet-1"))); res.Outcome != cache.Miss {
		t.Errorf("on another chain: got %s, want a miss", tell(res, nil))
	}
	a.SetNamespace("story-1")
	if res := mustGet(t, a, q, nil); tell(res, nil) != "hit shared: of story-1 at 100" {
		t.Errorf("back on the first chain: got %s, want hit shared: of story-1 at 100", tell(res, nil))
	}
}

func TestSharedStoreWaitsForTheNameOfTheChain(t *testing.T) {
	store := miniredis.RunT(t)
	c := sharing(t, client(t, store.Addr()), cache.Options{}, redis.Options{})
	q := cache.Query{Key: "k", Policy: live, Tip: 100}
	mustGet(t, c, q, answer(100, page))
	if keys := store.Keys(); len(keys) > 0 || c.SharedState() != "off" {
		t.Errorf("without a namespace: store %s with keys %q, want off with none", c.SharedState(), keys)
	}
	c.SetNamespace("story-1")
	mustGet(t, c, q, answer(100, page))
	idle(t, c)
	if len(store.Keys()) != 1 || c.SharedState() != "closed" {
		t.Errorf("with a namespace: store %s with keys %q, want closed with one", c.SharedState(), store.Keys())
	}
}

func onlyKey(t *testing.T, store *miniredis.Miniredis) string {
	t.Helper()
	keys := store.Keys()
	if len(keys) != 1 {
		t.Fatalf("the store has %q, want one key", keys)
	}
	return keys[0]
}
