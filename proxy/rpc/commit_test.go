package rpc_test

import (
	"context"
	"fmt"
	"io"
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

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	resp := expect.Value(http.Get(url))(t)
	defer resp.Body.Close()
	body := expect.Value(io.ReadAll(resp.Body))(t)
	return resp, string(body)
}

// The node replaces the commit of its newest block when the next block comes.
func TestCommitIsKeptOnlyOnceItIsCanonical(t *testing.T) {
	const tip, noHeight = `commit{"height":"746"}`, "commit"
	for name, tt := range map[string]struct{ post, uri, asked string }{
		"of the newest block":       {`{"id":%d,"method":"commit","params":{"height":"746"}}`, "/commit?height=746", tip},
		"without a height":          {`{"id":%d,"method":"commit","params":{}}`, "/commit", noHeight},
		"of the newest block, list": {`{"id":%d,"method":"commit","params":["746"]}`, "/commit?height=%22746%22", tip},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRecordedNode(t)
			server, _ := newHandler(t, n, rpc.Options{}, withLane)
			for i := range 4 {
				want := commitOf(746, fmt.Sprint("seen ", i), false)
				n.says(tt.asked, want)
				if _, body := post(t, server.URL, fmt.Sprintf(tt.post, i)); !strings.Contains(body, want) {
					t.Errorf("POST %d = %s, want %s", i, body, want)
				}
				resp, body := get(t, server.URL+tt.uri)
				expect.Contains(t, body, want, "GET %d", i)
				expect.Equal(t, resp.Header.Get("Cache-Control"), "no-store", "GET %d: Cache-Control", i)
				if got := resp.Header.Get("Cache-Status"); strings.Contains(got, "stored") {
					t.Errorf("GET %d: Cache-Status = %q, want no stored", i, got)
				}
			}
			want := commitOf(746, "canonical", true)
			n.says(tt.asked, want)
			if _, body := post(t, server.URL, fmt.Sprintf(tt.post, 4)); !strings.Contains(body, want) {
				t.Errorf("POST of a canonical commit = %s, want %s", body, want)
			}
			n.says(tt.asked, commitOf(746, "of another node", true))
			if _, body := post(t, server.URL, fmt.Sprintf(tt.post, 5)); !strings.Contains(body, want) {
				t.Errorf("POST after a canonical commit = %s, want the cached %s", body, want)
			}
		})
	}
}

func sharing(t *testing.T, addr string) *cache.Cache {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	store := expect.Value(redis.New(rdb, redis.Options{Timeout: 20 * time.Second}))(t)
	c := expect.Value(cache.New(cache.Options{Shared: store}))(t)
	t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
	c.SetNamespace("test-1")
	return c
}

// Replicas of an earlier version kept commits of the newest block as if they never changed.
func TestCommitsKeptByEarlierReplicasAreNotServed(t *testing.T) {
	store := miniredis.RunT(t)
	earlier := sharing(t, store.Addr())
	q := cache.Query{Key: `rpc/commit?{"height":"700"}`, Policy: cache.Policy{Immutable: true, ImmutableIfOK: true, Keep: time.Hour}}
	wrong, want := commitOf(700, "seen", false), commitOf(700, "canonical", true)
	if _, err := earlier.Get(t.Context(), q, func(context.Context, *cache.Entry) (*cache.Entry, error) {
		return &cache.Entry{Content: cache.NewContent(http.StatusOK, "application/json", "", []byte(wrong), 1), Height: 700, ReadAt: time.Now()}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := earlier.Close(); err != nil { // it waits for the write
		t.Fatal(err)
	}
	n := newRecordedNode(t)
	n.says(`commit{"height":"700"}`, want)
	for replica := range 2 {
		c := sharing(t, store.Addr())
		server, _ := newHandlerWith(t, c, n, rpc.Options{})
		if _, body := post(t, server.URL, `{"id":1,"method":"commit","params":{"height":"700"}}`); !strings.Contains(body, want) {
			t.Errorf("replica %d: commit = %s, want %s", replica, body, want)
		}
		_ = c.Close()
	}
	if got := n.times(`commit{"height":"700"}`); got != 1 {
		t.Errorf("node requests = %d, want 1 for both replicas", got)
	}
}
