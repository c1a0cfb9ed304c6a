package rpc_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/expect"
)

func commitOf(height int, signature string, canonical bool) string {
	return fmt.Sprintf(`"result":{"signed_header":{"header":{"height":"%d"},"commit":{"height":"%[1]d","signatures":[{"signature":%q}]}},"canonical":%t}`, height, signature, canonical)
}

// The node replaces the commit of its newest block when the next block arrives.
func TestCommitIsCachedOnlyIfCanonical(t *testing.T) {
	const tip, noHeight = `commit{"height":"746"}`, "commit"
	for name, tt := range map[string]struct{ post, uri, key string }{
		"of the newest block":       {`{"id":%d,"method":"commit","params":{"height":"746"}}`, "/commit?height=746", tip},
		"without a height":          {`{"id":%d,"method":"commit","params":{}}`, "/commit", noHeight},
		"of the newest block, list": {`{"id":%d,"method":"commit","params":["746"]}`, "/commit?height=%22746%22", tip},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRecordedNode(t)
			server, _ := newHandler(t, n, rpc.Options{}, withLane)
			for i := range 4 {
				want := commitOf(746, fmt.Sprint("seen ", i), false)
				n.setAnswer(tt.key, want)
				_, body := post(t, server.URL, fmt.Sprintf(tt.post, i))
				expect.Contains(t, body, want, "POST %d", i)
				resp, body := get(t, server.URL+tt.uri)
				expect.Contains(t, body, want, "GET %d", i)
				expect.Equal(t, resp.Header.Get("Cache-Control"), "no-store", "GET %d: Cache-Control", i)
				if got := resp.Header.Get("Cache-Status"); strings.Contains(got, "stored") {
					t.Errorf("GET %d: Cache-Status = %q, want no stored", i, got)
				}
			}
			want := commitOf(746, "canonical", true)
			n.setAnswer(tt.key, want)
			_, body := post(t, server.URL, fmt.Sprintf(tt.post, 4))
			expect.Contains(t, body, want, "POST of a canonical commit")
			n.setAnswer(tt.key, commitOf(746, "of another node", true))
			_, body = post(t, server.URL, fmt.Sprintf(tt.post, 5))
			expect.Contains(t, body, want, "POST after a canonical commit")
		})
	}
}

func newSharedCache(t *testing.T, addr string) *cache.Cache {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	store := expect.Value(redis.New(rdb, redis.Options{Timeout: 20 * time.Second}))(t)
	c := expect.Value(cache.New(cache.Options{Shared: store}))(t)
	t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
	c.SetNamespace("test-1")
	return c
}

// Replicas of an earlier version cached commits of the newest block as if they never changed.
func TestCommitsCachedByEarlierReplicasAreNotServed(t *testing.T) {
	store := miniredis.RunT(t)
	earlier := newSharedCache(t, store.Addr())
	q := cache.Query{Key: `rpc/commit?{"height":"700"}`, Policy: cache.Policy{Immutable: true, ImmutableIfOK: true, Keep: time.Hour}}
	wrong, want := commitOf(700, "seen", false), commitOf(700, "canonical", true)
	expect.Value(earlier.Get(t.Context(), q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		return &cache.Entry{Content: cache.NewContent(http.StatusOK, "application/json", "", []byte(wrong), 1), Height: 700, ReadAt: time.Now()}, nil
	}))(t)
	expect.NoError(t, earlier.Close()) // waits for the write
	n := newRecordedNode(t)
	n.setAnswer(`commit{"height":"700"}`, want)
	for replica := range 2 {
		c := newSharedCache(t, store.Addr())
		server, _ := newHandlerWith(t, c, n, rpc.Options{})
		_, body := post(t, server.URL, `{"id":1,"method":"commit","params":{"height":"700"}}`)
		expect.Contains(t, body, want, "commit of replica %d", replica)
		_ = c.Close()
	}
	expect.Equal(t, n.countCalls(`commit{"height":"700"}`), 1, "node requests of both replicas")
}
