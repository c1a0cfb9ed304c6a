package proxy_test

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/expect"
)

const anyPath = "/staking/pool"

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
		chainRefusal(400, "X-Min-Block-Height is above X-Block-Height: no block satisfies both"))
	expect.Equal(t, s.chain.calls(), 0, "requests reached the node")
}

func TestHeightOfAResponseIsKnownWithoutAHeightSource(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.set(func(f *fakeChain) { f.tip.Known = false })
	s.get(t, anyPath, "X-Min-Block-Height", "200").wants(t, 200)
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
	s.get(t, anyPath, "X-Min-Block-Height", "200").refuses(t, 504, `{"code":504,"msg":{},"error":"block 200 has not arrived; the newest is 228"}`+"\n")
}
