package cache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestProvisionalEntryAnswersItsBlockOnlyWhileThatIsTheTip(t *testing.T) {
	store := miniredis.RunT(t)
	reads := 0
	origin := func(context.Context, *cache.Entry) (*cache.Entry, error) {
		reads++
		content := cache.NewContent(200, "application/json", "", fmt.Append(nil, "read ", reads), cache.Lasting)
		return &cache.Entry{Content: content, Height: 100, ReadAt: time.Now(), Provisional: reads == 1}, nil
	}
	start := func() *cache.Cache { return newReplica(t, store.Addr(), cache.Options{}, redis.Options{}) }
	a, b := start(), start()
	for i, step := range []struct {
		replica *cache.Cache
		tip     int64
		want    string
	}{
		{a, 100, "read 1"}, {a, 100, "read 1"}, {b, 100, "read 1"}, {start(), 100, "read 1"},
		{b, 101, "read 2"}, {a, 101, "read 2"}, {b, 102, "read 2"}, {a, 0, "read 2"}, {start(), 150, "read 2"},
	} {
		q := cache.Query{Key: "k@100", Policy: cache.Policy{Immutable: true, Keep: time.Hour}, Tip: step.tip}
		expect.Equal(t, string(mustGet(t, step.replica, q, origin).Entry.Body), step.want, "body of request %d at tip %d", i, step.tip)
	}
	expect.Equal(t, reads, 2, "reads of the origin by all replicas")
}
