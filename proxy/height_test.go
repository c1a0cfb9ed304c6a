package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

const anyPath = "/staking/pool"

func TestAPastBlockIsReadOnceAndForever(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for range 2 {
		got := s.get(t, anyPath, "X-Block-Height", "100")
		got.has(t, "X-Block-Height", "100")
		got.has(t, "Cache-Control", "private, max-age=86400")
		got.has(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding")
		s.chain.grow(10_000)
	}
	s.get(t, anyPath, "X-Block-Height", "101").has(t, "X-Block-Height", "101")
	if diff := cmp.Diff([]node.Request{{Path: anyPath, Height: 100, Client: "127.0.0.1", Miss: true}, {Path: anyPath, Height: 101, Client: "127.0.0.1", Miss: true}}, s.chain.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestWaitingForABlockEnds(t *testing.T) {
	t.Parallel()
	bounds := map[string]proxy.Options{
		"when the block does not come in time": {Chain: chain.Options{MinHeightWait: 20 * time.Millisecond}},
		"when the time of the request is over": {Web: web.Options{RequestTimeout: 200 * time.Millisecond}},
	}
	for name, o := range bounds {
		t.Run(name, func(t *testing.T) {
			s := startChain(t, o)
			got := s.get(t, anyPath, "X-Min-Block-Height", "400")
			got.refuses(t, 504, `{"code":504,"msg":{},"error":"block 400 has not come; the newest is 228"}`+"\n")
			got.has(t, "Retry-After", "2")
		})
	}
	t.Run("at once when no height source is known", func(t *testing.T) {
		s := startChain(t, proxy.Options{})
		s.chain.deafen()
		got := s.get(t, anyPath, "X-Min-Block-Height", "1")
		got.refuses(t, 503, `{"code":503,"msg":{},"error":"the newest block is not known at present, so X-Min-Block-Height cannot be waited for"}`+"\n")
		got.has(t, "Retry-After", "1")
	})
}

func TestHeightsThatCannotBeServedAreRefused(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for header, want := range map[string]string{
		"X-Block-Height: 0":          `X-Block-Height is "0"; expected a positive integer`,
		"X-Min-Block-Height: latest": `X-Min-Block-Height is "latest"; expected a positive integer, or the X-Session of an answer`,
		"X-Min-Evm-Block: 0x4d2":     `X-Min-Evm-Block is "0x4d2"; expected a positive integer`,
		"X-Block-Height: 229":        "block 229 is in the future; the newest is 228",
	} {
		name, value, _ := strings.Cut(header, ": ")
		s.get(t, anyPath, name, value).refuses(t, 400, chainRefusal(400, want))
	}
	s.get(t, anyPath, "X-Block-Height", "100", "X-Min-Block-Height", "101").refuses(t, 400,
		chainRefusal(400, "X-Min-Block-Height is above X-Block-Height: no answer can be both"))
	if n := s.chain.calls(); n > 0 {
		t.Errorf("%d requests reached the node, want none", n)
	}
}

func TestHeightOfAResponseIsKnownWithoutAHeightSource(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.set(func(f *fakeChain) { f.tip.Known = false })
	if got := s.get(t, anyPath, "X-Min-Block-Height", "200"); got.status != 200 {
		t.Errorf("status = %d %s, want 200", got.status, got.body)
	}
}

func TestNodesThatCatchUpAreNotServedAsCurrent(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.set(func(f *fakeChain) { f.tip.CatchingUp, f.behind = true, 100 })
	for _, status := range []string{`tipcache; fwd=uri-miss; stored; ttl=0; detail="catching-up"`, `tipcache; fwd=stale; stored; ttl=0; detail="catching-up"`} {
		got := s.get(t, anyPath)
		got.has(t, "X-Block-Height", "128")
		got.has(t, "Cache-Control", "public, max-age=0, s-maxage=0")
		got.has(t, "Cache-Status", status)
	}
	s.get(t, anyPath, "X-Min-Block-Height", "200").refuses(t, 504, `{"code":504,"msg":{},"error":"block 200 has not come; the newest is 228"}`+"\n")
}
