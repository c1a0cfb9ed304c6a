package cache_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

// storeOf is the part of a replica that talks to Redis.
func storeOf(t *testing.T, rdb goredis.UniversalClient, o redis.Options) *redis.Store {
	t.Helper()
	o.Lease = time.Minute
	s, err := redis.New(rdb, o)
	expect.NoError(t, err)
	return s
}

// leasesOf are granted leases of keys.
func leasesOf(t *testing.T, s *redis.Store, keys ...string) (all []cache.Lease) {
	t.Helper()
	for _, key := range keys {
		l := s.NewLease("story-1", key, 0)
		if reply, err := l.Acquire(t.Context(), nil); err != nil || reply.State != cache.LeaseGranted {
			t.Fatalf("lease of %q: %+v, %v; want it granted", key, reply, err)
		}
		all = append(all, l)
	}
	return all
}

// together calls do for each lease at once, and gives the errors. Those after the first, which is
// settled by itself, come soon enough after it to be settled together.
func together(leases []cache.Lease, do func(cache.Lease) error) []error {
	errs := make([]error, len(leases))
	errs[0] = do(leases[0])
	var under sync.WaitGroup
	for i := 1; i < len(leases); i++ {
		under.Go(func() { errs[i] = do(leases[i]) })
	}
	under.Wait()
	return errs
}

// Redis refuses what needs memory only before the first write of a script.
func TestFullStoreRefusesWholeBatchOfWrites(t *testing.T) {
	t.Parallel()
	rdb := client(t, startRedis(t).addr)
	s := storeOf(t, rdb, redis.Options{Timeout: 10 * time.Second})
	leases := leasesOf(t, s, "0", "1", "2", "3")
	expect.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	e := entry(100, "answer")
	for i, err := range together(leases, func(l cache.Lease) error { return l.Publish(t.Context(), e, time.Hour) }) {
		if !goredis.HasErrorPrefix(err, "OOM") {
			t.Errorf("answer %d: %v, want it refused", i, err)
		}
	}
	s.Save(t.Context(), "story-1", map[string]*cache.Entry{"4": e, "5": e, "6": e}, time.Hour)
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("%q are left, want neither entries nor leases", keys)
	}
}

// What needs no memory would be such a write.
func TestFullStoreKeepsForeignKeys(t *testing.T) {
	t.Parallel()
	rdb := client(t, startRedis(t).addr)
	s := storeOf(t, rdb, redis.Options{Timeout: 10 * time.Second})
	entries := map[string]*cache.Entry{}
	for i := range 3 {
		key := fmt.Sprint(i)
		entries[key] = entry(100, "answer")
		rdb.Set(t.Context(), "tipcache:1:{story-1:"+key+"}", "foreign", 0)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "1")
	s.Save(t.Context(), "story-1", entries, time.Hour)
	if found, err := s.Load(t.Context(), "story-1", "0", "1", "2"); err != nil || len(found) != 0 {
		t.Errorf("%d entries stored without memory, error %v; want 0, nil", len(found), err)
	}
	for key := range entries {
		if kept := rdb.Get(t.Context(), "tipcache:1:{story-1:"+key+"}").Val(); kept != "foreign" {
			t.Errorf("the key of entry %s has %q, want what is foreign", key, kept)
		}
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	s.Save(t.Context(), "story-1", entries, time.Hour)
	if found, err := s.Load(t.Context(), "story-1", "0", "1", "2"); err != nil || len(found) != 3 {
		t.Errorf("%d entries stored with memory left, error %v; want 3, nil", len(found), err)
	}
}

// A client of one host may be that of a cluster whose only node has all slots.
func TestWritesOnClusterAreOneScriptPerSlot(t *testing.T) {
	t.Parallel()
	rdb := client(t, startCluster(t, 1)[0])
	keys, entries := []string{"0", "1", "2", "3"}, map[string]*cache.Entry{}
	for _, key := range keys {
		entries[key] = entry(100, "answer")
	}
	saving, publishing := storeOf(t, rdb, redis.Options{Timeout: 10 * time.Second}), storeOf(t, rdb, redis.Options{Timeout: 10 * time.Second})
	saving.Save(t.Context(), "story-1", entries, time.Hour)
	if found, err := saving.Load(t.Context(), "story-1", keys...); err != nil || len(found) != len(keys) {
		t.Errorf("%d entries saved, error %v; want %d, nil", len(found), err, len(keys))
	}
	expect.NoError(t, rdb.FlushAll(t.Context()).Err())
	for i, err := range together(leasesOf(t, publishing, keys...), func(l cache.Lease) error { return l.Publish(t.Context(), entries["0"], time.Hour) }) {
		if err != nil {
			t.Errorf("answer %d: error %v, want nil", i, err)
		}
	}
	if stored := rdb.Keys(t.Context(), "*").Val(); len(stored) != len(keys) {
		t.Errorf("%q are left, want the entries", stored)
	}
}
