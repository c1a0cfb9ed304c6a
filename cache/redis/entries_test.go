package redis_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUnreadableEntryIsAbsentAndOverwritten(t *testing.T) {
	t.Parallel()
	const key = "tipcache:2:{story-1:k}"
	put := func(command ...any) func(*goredis.Client) error {
		return func(rdb *goredis.Client) error { return rdb.Do(t.Context(), command...).Err() }
	}
	// fields stores a hash at key.
	fields := func(values ...any) func(*goredis.Client) error {
		return put(append([]any{"hset", key}, values...)...)
	}
	// status stores an entry that is valid except for its status.
	status := func(status int) func(*goredis.Client) error {
		etag := cache.NewContent(status, "", "", []byte("x"), 0).ETag
		return fields("m", fmt.Sprintf("2 100 1750000000000000 0 %s %d 0 0\n\x00\x00", etag, status), "b", "px")
	}
	meta := "2 100 1750000000000000 0 \"tag\" 200 0 0\n\x00\x00" // of another body
	rdb := startRedis(t)
	s := newStore(t, rdb, redis.Options{})
	for name, write := range map[string]func(*goredis.Client) error{
		"a string":                              put("set", key, "x"),
		"a list":                                put("lpush", key, "x"),
		"another hash":                          fields("x", "y"),
		"an older version":                      fields("m", strings.Replace(meta, "2", "0", 1), "b", "px"),
		"truncated metadata":                    fields("m", "2 100 1750000000000000 0 \"tag\" ", "b", "px"),
		"the body of another entry":             fields("m", meta, "b", "px"),
		"no body":                               fields("m", meta),
		"a body that does not decompress":       fields("m", meta, "b", "zzzz"),
		"a corrupt entry from a later block":    fields("m", strings.Replace(meta, "100", "9000", 1), "b", "px"),
		"a corrupt entry from an earlier block": fields("m", strings.Replace(meta, "100", "9", 1), "b", "px"),
		"a status below 100":                    status(99),
		"a status above 599":                    status(600),
		"a status without a body":               status(304),
		"a lease of another type":               put("lpush", key+":l", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			expect.NoError(t, rdb.FlushAll(t.Context()).Err())
			expect.NoError(t, write(rdb))
			if e, _ := s.Read(t.Context(), "story-1", "k"); e != nil {
				t.Errorf("Read = %+v, want nothing", e)
			}
			if found, _ := s.Load(t.Context(), "story-1", "k"); len(found) != 0 {
				t.Errorf("Load = %v, want nothing", found)
			}
			expect.NoError(t, acquireLeases(t, s, "k")[0].Publish(t.Context(), entry(100, "new"), time.Hour))
			if e, err := s.Read(t.Context(), "story-1", "k"); err != nil || e == nil || string(e.Body) != "new" {
				t.Errorf("Read after the write = %+v, %v; want the new entry", e, err)
			}
		})
	}
	expect.NoError(t, status(404)(rdb))
	if e, err := s.Read(t.Context(), "story-1", "k"); err != nil || e == nil || e.Status != 404 {
		t.Errorf("Read of a valid entry = %+v, %v; want status 404", e, err)
	}
}

func TestReadReturnsPublishedEntry(t *testing.T) {
	t.Parallel()
	rdb, random := startRedis(t), make([]byte, 10<<10)
	_, _ = rand.Read(random)
	a, b := newStore(t, rdb, redis.Options{}), newStore(t, rdb, redis.Options{})
	for name, content := range map[string]*cache.Content{
		"a page":                     cache.NewContent(200, "application/json", "</next>; rel=\"next\"", bytes.Repeat([]byte("page "), 1000), 42),
		"an empty body":              cache.NewContent(404, "", "", nil, 0),
		"a body that is not smaller": cache.NewContent(200, "application/octet-stream", "", random, 1<<63),
		"a type with a newline":      cache.NewContent(200, "a\nb", "\n", []byte("x"), 1),
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			sent := &cache.Entry{Content: content, Height: 100, ReadAt: now, Expires: now.Add(time.Hour)}
			expect.NoError(t, acquireLeases(t, a, name)[0].Publish(t.Context(), sent, time.Hour))
			got := expect.Value(b.Read(t.Context(), "story-1", name))(t)
			if got.ETag != content.ETag || got.Status != content.Status || got.Type != content.Type ||
				got.Link != content.Link || got.Source != content.Source || !bytes.Equal(got.Body, content.Body) {
				t.Errorf("content = %+v, want %+v", got.Content, content)
			}
			if !got.Expires.Equal(sent.Expires.Truncate(time.Microsecond)) || got.Height != 100 {
				t.Errorf("Height, Expires = %d, %v; want 100, %v", got.Height, got.Expires, sent.Expires)
			}
		})
	}
}

// Of equal or unknown heights, the entry that was read later is newer. An entry above the maximum of the lease is replaced.
func TestWriteNeverReplacesNewerEntry(t *testing.T) {
	t.Parallel()
	s, start := newStore(t, startRedis(t), redis.Options{}), time.Now()
	stored, wanted := map[string]*cache.Entry{}, map[string]string{}
	var leases []cache.Lease
	var written []*cache.Entry
	for _, height := range [][2]int64{{0, 0}, {0, 100}, {100, 0}, {100, 100}, {99, 100}, {100, 99}, {120, 100}, {120, 0}, {100, 120}} {
		for _, later := range []time.Duration{-time.Second, 0, time.Second} {
			for _, maxHeight := range []int64{0, 110} {
				key := fmt.Sprintf("heights %v, second read %v later, maximum %d", height, later, maxHeight)
				first, second := entry(height[0], "first"), entry(height[1], "second")
				first.ReadAt, second.ReadAt = start, start.Add(later)
				stored[key], wanted[key] = first, "first"
				if height[0] > 0 && height[1] > height[0] ||
					(height[0] == height[1] || height[0] == 0 || height[1] == 0) && later >= 0 || maxHeight > 0 && height[0] > maxHeight {
					wanted[key] = "second"
				}
				leases, written = append(leases, s.NewLease("story-1", key, maxHeight, false)), append(written, second)
			}
		}
	}
	s.Save(t.Context(), "story-1", stored, time.Hour)
	expect.NoError(t, errors.Join(publishAll(t, leases, written...)...))
	found := expect.Value(s.Load(t.Context(), "story-1", slices.Collect(maps.Keys(stored))...))(t)
	for key, want := range wanted {
		if got := found[key]; got == nil || string(got.Body) != want {
			t.Errorf("%s: entry in Redis = %+v, want the %s", key, got, want)
		}
	}
}

// A confirmation is written without the body, and must not be combined with the body of another entry.
func TestConfirmationReplacesEntryWithOtherContent(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t)
	a, other := newStore(t, rdb, redis.Options{}), newStore(t, rdb, redis.Options{})
	have := entry(100, "x")
	a.Save(t.Context(), "story-1", map[string]*cache.Entry{"k": have}, time.Hour)
	l := a.NewLease("story-1", "k", 0, false)
	reply := expect.Value(l.Acquire(t.Context(), have))(t)
	expect.Equal(t, reply.State, cache.LeaseGranted, "state of the lease")
	other.Save(t.Context(), "story-1", map[string]*cache.Entry{"k": entry(110, "y")}, time.Hour)
	expect.NoError(t, l.Publish(t.Context(), have.Confirm(120, time.Now()), time.Hour))
	if e, err := other.Read(t.Context(), "story-1", "k"); err != nil || e == nil || string(e.Body) != "x" || e.Height != 120 {
		t.Errorf("Read = %+v, %v; want x at 120", e, err)
	}
}

func TestPurgeScansManyKeysAndKeepsLeases(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t)
	s, entries := newStore(t, rdb, redis.Options{}), map[string]*cache.Entry{}
	for i := range 5000 {
		entries[fmt.Sprintf("many/%d", i)] = entry(100, "x")
	}
	s.Save(t.Context(), "story-1", entries, time.Hour)
	acquireLeases(t, s, "many/another")
	if n, err := s.Purge(t.Context(), cache.Selection{Prefix: "many/"}, "story-1"); n != 5000 || err != nil {
		t.Errorf("Purge = %d, %v; want 5000, nil", n, err)
	}
	expect.NoDiff(t, rdb.Keys(t.Context(), "*").Val(), []string{"tipcache:2:{story-1:many/another}:l"}, "keys left in Redis")
}
