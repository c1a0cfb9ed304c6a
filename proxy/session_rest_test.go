package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/node"
)

// alone is a server that knows of the chain's blocks by the REST server of its node alone.
func (s *sdkService) alone(t *testing.T) *sdkService {
	t.Helper()
	alone, held := &sdkService{Devnet: s.Devnet}, newCache(t, nil)
	var err error
	if alone.pool, err = node.New(node.Options{
		Dialect: node.Cosmos, Endpoints: []node.Endpoint{{REST: s.NodeURL()}}, BlockInterval: 250 * time.Millisecond, Timeout: 20 * time.Second, RollbackAfter: time.Hour,
		OnEpoch: func(_ string, epoch int64) { held.SetNamespace(strconv.FormatInt(epoch, 10)) },
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- alone.pool.Run(context.Background()) }()
	t.Cleanup(func() { _ = alone.pool.Close(); <-ended })
	if alone.proxy, err = proxy.New(proxy.Options{Cache: held, Chain: chain.Options{Nodes: alone.pool, Patience: 10 * time.Millisecond}, Cosmos: &proxy.Cosmos{}}); err != nil {
		t.Fatal(err)
	}
	alone.server = httptest.NewServer(alone.proxy)
	t.Cleanup(alone.server.Close)
	alone.waitTip(t)
	return alone
}

// told asks in a session until the answer is as it should be, and gives its session.
func (s *sdkService) told(t *testing.T, what, token string, as func(h http.Header) bool) (session string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		resp, body := s.get(t, sdkPool, "X-Session", token)
		if resp.StatusCode == http.StatusOK && as(resp.Header) {
			return resp.Header.Get("X-Session")
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s: %v\n%s", what, resp.Status, resp.Header, body)
		}
	}
}

func TestSessionSurvivesLossOfCometBFT(t *testing.T) {
	t.Parallel()
	chain := newSDK(t, devnet.Options{}, nil)
	s := chain.alone(t)
	hashed := func(h http.Header) bool {
		height, hash, _ := strings.Cut(h.Get("X-Session"), ".")
		return height == strconv.FormatInt(chain.Height(), 10) && len(hash) == 12
	}
	grow := func(all ...*sdkService) {
		for range 6 {
			chain.Advance(1)
			for _, s := range all { // each has to learn the hash of each block
				s.told(t, "the next block", "1", hashed)
			}
		}
	}
	grow(s)
	lost := s.told(t, "a block of the chain", "1", hashed)
	anew := func(h http.Header) bool { return hashed(h) && h.Get("X-Session-Reset") == "true" }

	chain.RollBack(5)
	chain.Node().Restart()
	chain.Advance(2)
	if kept := s.told(t, "a block that is lost, above the tip", lost, anew); kept == lost {
		t.Errorf("the session is still %s", kept)
	}
	started := chain.alone(t) // which has not seen what was lost
	started.told(t, "the same, of a server that knows nothing of it", lost, func(h http.Header) bool {
		return hashed(h) && h.Get("X-Session-Reset") == "" && strings.Contains(h.Get("Cache-Status"), "stale-")
	})
	grow(s, started)
	s.told(t, "a block that is lost, below the tip", lost, anew)
	started.told(t, "the same, of the other server", lost, anew)
}
