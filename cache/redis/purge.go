package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

// scanStep is the approximate number of keys per SCAN, few enough to stay within the timeout.
const scanStep = 1000

// Purge implements [cache.Shared], on every master.
func (s *Store) Purge(ctx context.Context, sel cache.Selection, namespaces ...string) (int, error) {
	var n atomic.Int64
	purge := func(ctx context.Context, rdb redis.UniversalClient) error {
		return s.sweep(ctx, rdb, sel, namespaces, &n)
	}
	var err error
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, rdb *redis.Client) error { return purge(ctx, rdb) })
	} else {
		err = purge(ctx, s.rdb)
	}
	return int(n.Load()), err
}

// sweep scans the keys of one server once, because a scan reads all of them. Lease keys do not match the pattern.
func (s *Store) sweep(ctx context.Context, rdb redis.UniversalClient, sel cache.Selection, namespaces []string, n *atomic.Int64) error {
	match := literal(entriesBegin) + "*:" + pattern(sel) + literal(entriesEnd)
	others := func(at string) bool {
		namespace, key, ok := splitEntryKey(at)
		return !ok || !slices.Contains(namespaces, namespace) || !sel.Has(key)
	}
	for cursor := uint64(0); ; {
		var keys []string
		err := s.do(ctx, func(ctx context.Context) (err error) {
			keys, cursor, err = rdb.Scan(ctx, cursor, match, scanStep).Result()
			return err
		})
		if err != nil {
			return err
		}
		if err := s.unlink(ctx, rdb, slices.DeleteFunc(keys, others), n); err != nil || cursor == 0 {
			return err
		}
	}
}

// unlink removes keys in one round trip. It sends one command for each, because in a Cluster their hash slots differ.
func (s *Store) unlink(ctx context.Context, rdb redis.UniversalClient, keys []string, n *atomic.Int64) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	return s.do(ctx, func(ctx context.Context) error {
		replies, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.Unlink(ctx, key)
			}
			return nil
		})
		for _, reply := range replies {
			n.Add(reply.(*redis.IntCmd).Val())
		}
		return err
	})
}

// pattern returns a SCAN pattern that matches at least the selected keys.
func pattern(s cache.Selection) string {
	switch {
	case s.Path != "":
		return strings.ReplaceAll(literal(s.Path), `\*`, "*") + "*"
	case s.Prefix != "":
		return literal(s.Prefix) + "*"
	default:
		return "*" + literal(s.Contains) + "*"
	}
}

// literal returns a pattern that matches only text.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// purgeMark begins a message that tells replicas to purge.
const purgeMark = '!'

// An announcement tells replicas what to purge. Its time limits the replay of a signed one.
type announcement struct {
	cache.Selection
	At int64 // in milliseconds
}

// AnnouncePurge implements [cache.Shared]. This replica receives the announcement, too.
func (s *Store) AnnouncePurge(ctx context.Context, namespace string, sel cache.Selection) error {
	channel := channelOf(namespace)
	text, _ := json.Marshal(announcement{sel, s.o.Now().UnixMilli()}) // strings and numbers always encode
	return s.do(ctx, func(ctx context.Context) error {
		return s.rdb.Publish(ctx, channel, string(purgeMark)+string(s.codec.seal(channel, text))).Err()
	})
}

// readAnnouncement decodes a message of AnnouncePurge.
func (s *Store) readAnnouncement(channel, message string) (cache.Selection, error) {
	text, err := s.codec.open(channel, message)
	if err != nil {
		return cache.Selection{}, err
	}
	var a *announcement
	if err := json.Unmarshal([]byte(text), &a); err != nil || a == nil {
		return cache.Selection{}, fmt.Errorf("%w: not a selection", errCorrupt)
	}
	if len(s.o.SealKey) > 0 && s.o.Now().Sub(time.UnixMilli(a.At)).Abs() > maxAge {
		return cache.Selection{}, fmt.Errorf("%w: announcement is too old", errCorrupt)
	}
	return a.Selection, nil
}
