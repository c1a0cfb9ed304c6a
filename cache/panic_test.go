package cache_test

import (
	"math"
	"testing"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
)

// The client library panics on a list that is longer than memory, and on an empty message.
func TestClientPanicOnReplyDoesNotFailRequest(t *testing.T) {
	store := miniredis.RunT(t)
	store.Server().SetPreHook(func(peer *peers.Peer, cmd string, _ ...string) bool {
		switch cmd {
		case "HELLO", "CLIENT":
			return false // the client must be able to connect
		case "SUBSCRIBE":
			peer.WriteLen(0)
		default:
			peer.WriteLen(math.MaxInt)
		}
		return true
	})
	c := newReplica(t, store.Addr(), cache.Options{}, redis.Options{})
	mustReadKeys(t, c, 100, 3)
	if found := c.Load(t.Context(), []string{"other"}); len(found) != 0 {
		t.Errorf("Load = %v, want nothing", found)
	}
	if _, err := c.PurgeKeys(t.Context(), cache.Selection{}); err == nil {
		t.Error("PurgeKeys: error = nil, want one")
	}
	if i := c.Inspect(t.Context(), cache.Query{Key: "k0", Policy: live, Tip: 100}, nil); i.SharedErr == nil {
		t.Error("Inspect: SharedErr = nil, want an error")
	}
	waitForIdle(t, c)
	if n := metric(t, c, "shared_errors_total", "panic"); n == 0 {
		t.Error("shared_errors_total of panics = 0, want more")
	}
}
