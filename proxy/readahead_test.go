package proxy_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// readAhead does not limit reads ahead.
var readAhead = proxy.ReadAhead{Share: 1000, Room: func() bool { return true }}

// runServer runs background work of the server until the test ends.
func runServer(t *testing.T, p *proxy.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// waitForReadAhead calls ask and grow until grow alone causes a read of the node.
func waitForReadAhead(t *testing.T, ask, grow func(), reads func() int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ask()
		before := reads()
		grow()
		for range 20 {
			if reads() > before {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	t.Fatal("no read of the node after a new block within 1m, want one")
}

func TestRequestedKeysAreReadAhead(t *testing.T) {
	t.Parallel()
	withAndWithoutLane(t, proxy.Options{ReadAhead: readAhead}, func(t *testing.T, s *chainService) {
		runServer(t, s.proxy)
		client := dial(t, s.Listener.Addr())
		waitForReadAhead(t, func() {
			for range 4 {
				client.roundTrip(t, getPool)
			}
		}, func() { s.chain.grow(1) }, s.chain.calls)
		if r := s.chain.lastRequest(); !r.Ahead || r.Path != "/staking/pool" || r.Height != node.AtTip {
			t.Errorf("node request = %+v, want a read ahead of /staking/pool at the tip", r)
		}
		calls, target := s.chain.calls(), "\r\nX-Block-Height: "
		expect.Eventually(t, "a hit at the tip", func() bool {
			answer := client.roundTrip(t, getPool)
			return strings.Contains(answer, "hit") && strings.Contains(answer, target+strconv.FormatInt(s.chain.Tip().Height, 10))
		})
		expect.Equal(t, s.chain.calls(), calls, "node requests after the read ahead")
		expect.Equal(t, explain(t, s.proxy, proxy.Inquiry{URL: "/staking/pool"}).ReadAhead, true, "ReadAhead in the explanation")
	})
}

func TestRequestedSDKKeysAreReadAhead(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.ReadAhead = readAhead })
	runServer(t, s.proxy)
	waitForReadAhead(t, func() {
		s.get(t, sdkPool)
		s.get(t, sdkPool)
	}, func() { s.advance(t) }, func() int { return int(s.reads(sdkPool)) })
}

func TestReadAheadRequiresACapacityFunction(t *testing.T) {
	if _, err := proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: blocks.Options{Nodes: newFakeChain(t)}, ReadAhead: proxy.ReadAhead{Share: 0.1}}); err == nil {
		t.Error("read-ahead without a capacity function: error = nil, want one")
	}
}

// catchingUpChain is a chain whose nodes catch up. It records the heights that are waited for.
type catchingUpChain struct {
	*fakeChain
	waits chan int64
}

func (c catchingUpChain) Tip() node.Tip {
	tip := c.fakeChain.Tip()
	tip.CatchingUp = true
	return tip
}

func (c catchingUpChain) WaitHeight(ctx context.Context, height int64) error {
	select {
	case c.waits <- height:
	case <-ctx.Done():
	}
	return c.fakeChain.WaitHeight(ctx, height)
}

func TestReadAheadWaitsForTheNextBlockWhileNodesCatchUp(t *testing.T) {
	t.Parallel()
	chain := catchingUpChain{newFakeChain(t), make(chan int64)}
	o := proxy.Options{Cache: newCache(t, nil), Chain: blocks.Options{Nodes: chain}, ReadAhead: readAhead}
	o.ReadAhead.Share = proxy.DefaultReadAhead // below 1, as in the program
	runServer(t, expect.Value(proxy.New(o))(t))
	select {
	case height := <-chain.waits:
		expect.Equal(t, height, chain.Tip().Height+1, "height that is waited for")
	case <-time.After(time.Minute):
		t.Error("no wait for a block within 1m, want one")
	}
}
