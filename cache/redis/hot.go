package redis

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

// Limits of the set of hot keys. It expires when no replica adds keys.
const (
	maxHot    = 32 << 10
	hotExpiry = time.Hour
	hotStep   = 1000 // keys added per operation
	hotSpread = 20 * time.Minute
)

// hotKey returns the Redis key of the set of hot keys. Scores are times in seconds, minus up to hotSpread depending on
// the rank. So a frequent key stays ahead of a rare one that was stored some rounds later.
func hotKey(namespace string) string { return metaKey("hot", namespace) }

// SaveHotKeys implements [cache.Shared].
func (s *Store) SaveHotKeys(ctx context.Context, namespace string, keys []cache.HotKey) error {
	at, now := hotKey(namespace), float64(s.o.Now().Unix())
	for step := range slices.Chunk(keys, hotStep) {
		members := make([]redis.Z, len(step))
		for i, key := range step {
			members[i] = redis.Z{Score: now - hotSpread.Seconds()*float64(key.Rank)/maxHot, Member: key.Key}
		}
		if err := s.do(ctx, func(ctx context.Context) error { return s.rdb.ZAdd(ctx, at, members...).Err() }); err != nil {
			return err // counted
		}
	}
	return s.do(ctx, func(ctx context.Context) error { // counted
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.ZRemRangeByRank(ctx, at, 0, -maxHot-1)
			p.Expire(ctx, at, hotExpiry)
			return nil
		})
		return err
	})
}

// HotKeys implements [cache.Shared].
func (s *Store) HotKeys(ctx context.Context, namespace string, n int) (keys []string, err error) {
	const step = 4096 // small enough for the timeout
	for from := 0; from < n; from += step {
		var some []string
		err = s.do(ctx, func(ctx context.Context) (err error) {
			some, err = s.rdb.ZRevRange(ctx, hotKey(namespace), int64(from), int64(min(from+step, n)-1)).Result()
			return err
		})
		keys = append(keys, some...)
		if err != nil || len(some) < step {
			break
		}
	}
	return keys, err
}
