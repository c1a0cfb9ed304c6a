package redis

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
)

// The set of the keys that replicas use most is bounded, and goes when no
// replica notes keys any more.
const (
	maxHot    = 32 << 10
	hotExpiry = time.Hour
	hotStep   = 1000 // keys noted in one operation
	hotSpread = 20 * time.Minute
)

// hotKey is where the set of a namespace is. The score of a key is the time it
// was noted at, in seconds, and less by up to hotSpread the less it is used: so a key that is
// used much is before one that is used little, also where it was noted some rounds earlier.
func hotKey(namespace string) string { return noteKey("hot", namespace) }

// NoteHot implements [cache.Shared].
func (s *Store) NoteHot(ctx context.Context, namespace string, keys []cache.HotKey) error {
	at, now := hotKey(namespace), float64(s.o.Now().Unix())
	for step := range slices.Chunk(keys, hotStep) {
		members := make([]redis.Z, len(step))
		for i, key := range step {
			members[i] = redis.Z{Score: now - hotSpread.Seconds()*float64(key.Rank)/maxHot, Member: key.Key}
		}
		if err := s.do(ctx, func(ctx context.Context) error { return s.rdb.ZAdd(ctx, at, members...).Err() }); err != nil {
			return err // counted; the next time will do
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
	const step = 4096 // of so many keys a reply comes in time
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
