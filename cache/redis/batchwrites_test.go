package redis_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// startRedis runs a redis-server until the test ends, and returns a client of it.
func startRedis(t *testing.T) *goredis.Client {
	t.Helper()
	addr, _ := redistest.Start(t)
	return redistest.Client(t, addr)
}

// newStore returns a store with a timeout and leases that are long enough for a busy machine.
func newStore(t *testing.T, rdb goredis.UniversalClient, o redis.Options) *redis.Store {
	t.Helper()
	o.Timeout, o.Lease = 10*time.Second, time.Hour
	return expect.Value(redis.New(rdb, o))(t)
}

// entry returns an entry that was read now.
func entry(height int64, body string) *cache.Entry {
	return &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte(body), 0), Height: height, ReadAt: time.Now()}
}

// acquireLeases returns the leases of keys, and fails the test unless all are granted.
func acquireLeases(t *testing.T, s *redis.Store, keys ...string) (all []cache.Lease) {
	t.Helper()
	for _, key := range keys {
		l := s.NewLease("story-1", key, 0, false)
		if reply, err := l.Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseGranted {
			t.Fatalf("Acquire of %q = %+v, %v; want granted", key, reply, err)
		}
		all = append(all, l)
	}
	return all
}

// publishAll publishes entries under leases, or one entry under all, and returns the errors. The first write is sent
// alone, and the others follow soon enough to be batched.
func publishAll(t *testing.T, leases []cache.Lease, entries ...*cache.Entry) []error {
	errs := make([]error, len(leases))
	publish := func(i int) { errs[i] = leases[i].Publish(t.Context(), entries[i%len(entries)], time.Hour) }
	publish(0)
	var publishing sync.WaitGroup
	for i := 1; i < len(leases); i++ {
		publishing.Go(func() { publish(i) })
	}
	publishing.Wait()
	return errs
}

// Redis checks its memory limit only before the first write of a script.
func TestFullStoreRefusesWholeBatchOfWrites(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t)
	s := newStore(t, rdb, redis.Options{})
	leases := acquireLeases(t, s, "0", "1", "2", "3")
	expect.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	e := entry(100, "answer")
	for i, err := range publishAll(t, leases, e) {
		if !goredis.HasErrorPrefix(err, "OOM") {
			t.Errorf("Publish of entry %d: error = %v, want OOM", i, err)
		}
	}
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"4": e, "5": e, "6": e}, time.Hour)
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("keys in Redis = %q, want neither entries nor leases", keys)
	}
}

func TestFullStoreReportsHolderOfLease(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t)
	s := newStore(t, rdb, redis.Options{})
	acquireLeases(t, s, "held")
	expect.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	reply, err := s.NewLease("story-1", "held", 0, false).Acquire(t.Context(), nil)
	if err != nil || reply.State != cache.LeaseBusy {
		t.Errorf("Acquire of a held lease = state %v, error %v; want %v, nil", reply.State, err, cache.LeaseBusy)
	}
	if _, err := s.NewLease("story-1", "free", 0, false).Acquire(t.Context(), nil); !goredis.HasErrorPrefix(err, "OOM") {
		t.Errorf("Acquire of a free lease: error = %v, want OOM", err)
	}
}

// The script must not begin with a delete of the key, which needs no memory.
func TestFullStoreKeepsForeignKeys(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t)
	s := newStore(t, rdb, redis.Options{})
	entries := map[string]*cache.Entry{}
	for i := range 3 {
		key := fmt.Sprint(i)
		entries[key] = entry(100, "answer")
		rdb.Set(t.Context(), "tipcache:2:{story-1:"+key+"}", "foreign", 0)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "1")
	s.Save(t.Context(), "story-1", entries, time.Hour)
	if found, err := s.Load(t.Context(), "story-1", "0", "1", "2"); err != nil || len(found) != 0 {
		t.Errorf("entries stored in a full Redis = %d, %v; want 0, nil", len(found), err)
	}
	for key := range entries {
		expect.Equal(t, rdb.Get(t.Context(), "tipcache:2:{story-1:"+key+"}").Val(), "foreign", "value at the key of entry %s", key)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	s.Save(t.Context(), "story-1", entries, time.Hour)
	if found, err := s.Load(t.Context(), "story-1", "0", "1", "2"); err != nil || len(found) != 3 {
		t.Errorf("entries stored with memory left = %d, %v; want 3, nil", len(found), err)
	}
}

// Redis forgets scripts when it restarts.
func TestUnknownScriptIsSentOnceForAllSavedEntries(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t)
	s, entries := newStore(t, rdb, redis.Options{}), map[string]*cache.Entry{}
	for i := range 100 {
		entries[fmt.Sprint(i)] = entry(100, "answer")
	}
	s.Save(t.Context(), "story-1", entries, time.Hour)
	if found, err := s.Load(t.Context(), "story-1", slices.Collect(maps.Keys(entries))...); err != nil || len(found) != 100 {
		t.Errorf("saved entries = %d, %v; want 100, nil", len(found), err)
	}
	expect.Equal(t, commandCalls(t, rdb, "eval"), 1, "scripts sent as text")
}

// A client of a single host may be connected to the only node of a Cluster.
func TestWritesOnClusterAreOneScriptPerSlot(t *testing.T) {
	t.Parallel()
	rdb := redistest.Client(t, startCluster(t, 1)[0])
	keys, entries := []string{"0", "1", "2", "3"}, map[string]*cache.Entry{}
	for _, key := range keys {
		entries[key] = entry(100, "answer")
	}
	saving, publishing := newStore(t, rdb, redis.Options{}), newStore(t, rdb, redis.Options{})
	saving.Save(t.Context(), "story-1", entries, time.Hour)
	if found, err := saving.Load(t.Context(), "story-1", keys...); err != nil || len(found) != len(keys) {
		t.Errorf("saved entries = %d, %v; want %d, nil", len(found), err, len(keys))
	}
	expect.NoError(t, rdb.FlushAll(t.Context()).Err())
	for i, err := range publishAll(t, acquireLeases(t, publishing, keys...), entries["0"]) {
		if err != nil {
			t.Errorf("Publish of entry %d: error = %v, want nil", i, err)
		}
	}
	if stored := rdb.Keys(t.Context(), "*").Val(); len(stored) != len(keys) {
		t.Errorf("keys in Redis = %q, want the %d entries without leases", stored, len(keys))
	}
}
