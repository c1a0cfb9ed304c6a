package redis_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"

	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// A host that has lost power closes no connection. A failover replaces it within seconds.
func TestSubscriptionToHostThatFellSilentIsRenewed(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	messages := subscribe(t, expect.Value(redis.New(redistest.Client(t, server.Addr()), redis.Options{}))(t))
	server.Server().SetPreHook(func(_ *peers.Peer, cmd string, _ ...string) bool { return cmd == "PING" || cmd == "PUBLISH" })
	expectSubscription(t, messages)
}

// A node that was removed from a Cluster, and the previous master during a failover, keep their connections and answer pings.
func TestSubscriptionToServerThatNobodyPublishesToIsRenewed(t *testing.T) {
	t.Parallel()
	previous, current := miniredis.RunT(t), miniredis.RunT(t)
	address := porttest.NewMoving(t, previous.Addr())
	messages := subscribe(t, newStore(t, redistest.Client(t, address.Address), redis.Options{}))
	address.Move(current.Addr())
	expectSubscription(t, messages)
	expect.Equal(t, current.PubSubNumSub("tipcache:2:story-1")["tipcache:2:story-1"], 1, "subscriptions at the server with the data")
}

// expectSubscription waits for the message of a new subscription.
func expectSubscription(t *testing.T, messages <-chan string) {
	t.Helper()
	select {
	case got := <-messages:
		expect.Equal(t, got, "subscribed", "message")
	case <-time.After(15 * time.Second):
		t.Error("no new subscription after 15 s")
	}
}
