package proxy_test

import (
	"testing"

	"github.com/tipcache/tipcache/proxy"
)

const anyPath = "/staking/pool"

func TestMinimumBlockIsServedFromResponseHeightWithoutTip(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.change(func(f *fakeChain) { f.tip.Known = false })
	s.get(t, anyPath, "X-Min-Block-Height", "200").expect(t, 200)
}

func TestResponsesAreMarkedWhileNodesCatchUp(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.change(func(f *fakeChain) { f.tip.CatchingUp, f.behind = true, 100 })
	for _, status := range []string{`tipcache; fwd=uri-miss; stored; ttl=0; detail="catching-up"`, `tipcache; fwd=stale; stored; ttl=0; detail="catching-up"`} {
		got := s.get(t, anyPath)
		got.expectHeader(t, "X-Block-Height", "128")
		got.expectHeader(t, "Cache-Control", "public, max-age=0, s-maxage=0")
		got.expectHeader(t, "Cache-Status", status)
	}
	s.get(t, anyPath, "X-Min-Block-Height", "200").expectRefusal(t, 504, `{"code":504,"msg":{},"error":"block 200 has not arrived; the newest is 228"}`+"\n")
}
