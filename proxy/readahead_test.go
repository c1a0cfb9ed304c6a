package proxy_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// readAhead is as much as a test may take.
var readAhead = proxy.ReadAhead{Share: 1000, Room: func() bool { return true }}

// runs has a server read ahead until the test ends.
func runs(t *testing.T, p *proxy.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// untilReadAhead has clients ask in every block, until the node is asked for a
// block before they do.
func untilReadAhead(t *testing.T, ask, grow func(), reads func() int) {
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
	t.Fatal("no key was read ahead")
}

func TestKeysInUseAreReadAhead(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, proxy.Options) *chainService{
		"with the fast lane":    startChain,
		"without the fast lane": func(t *testing.T, o proxy.Options) *chainService { return startChainWithout(t, o) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, proxy.Options{ReadAhead: readAhead})
			runs(t, s.proxy)
			client := dial(t, s.Listener.Addr())
			untilReadAhead(t, func() {
				for range 4 {
					client.ask(t, pool)
				}
			}, func() { s.chain.grow(1) }, s.chain.calls)
			if r := s.chain.last(); !r.Ahead || r.Path != "/staking/pool" || r.Height != node.AtTip {
				t.Errorf("the node was asked %+v", r)
			}
			calls, target := s.chain.calls(), "\r\nX-Block-Height: "
			expect.Eventually(t, "the answer is at hand", func() bool {
				answer := client.ask(t, pool)
				return strings.Contains(answer, "hit") && strings.Contains(answer, target+strconv.FormatInt(s.chain.Tip().Height, 10))
			})
			if s.chain.calls() != calls {
				t.Errorf("the node was asked %d times for a block, want once", 1+s.chain.calls()-calls)
			}
			e, err := s.proxy.Explain(t.Context(), proxy.Inquiry{URL: "/staking/pool"})
			if err != nil || !e.ReadAhead {
				t.Errorf("explained: %+v, %v", e, err)
			}
		})
	}
}

func TestKeysInUseAreReadAheadInTheDialectOfTheSDK(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.ReadAhead = readAhead })
	runs(t, s.proxy)
	untilReadAhead(t, func() {
		s.get(t, sdkPool)
		s.get(t, sdkPool)
	}, func() { s.advance(t) }, func() int { return int(s.reads(sdkPool)) })
}

func TestReadAheadRequiresACapacityFunction(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	if _, err := proxy.New(proxy.Options{Cache: c, Chain: story.Options{Nodes: newFakeChain(t)}, ReadAhead: proxy.ReadAhead{Share: 0.1}}); err == nil {
		t.Error("read-ahead without a capacity function: error = nil, want one")
	}
}
