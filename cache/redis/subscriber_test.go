package redis_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"

	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A host that has lost power closes no connection. A failover replaces it within seconds.
func TestSubscriptionToHostThatFellSilentIsRenewed(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	messages := subscribe(t, newStore(t, redistest.Client(t, server.Addr()), redis.Options{}))
	server.Server().SetPreHook(func(_ *peers.Peer, cmd string, _ ...string) bool { return cmd == "PING" })
	select {
	case got := <-messages:
		expect.Equal(t, got, "subscribed", "message")
	case <-time.After(15 * time.Second):
		t.Error("no new subscription after 15 s")
	}
}
