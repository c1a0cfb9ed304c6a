package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
)

const getValidators = "GET /staking/validators HTTP/1.1\r\nHost: x\r\n\r\n"

// expectBlock fails the test unless a response is from a block, and marked as stale or not.
func expectBlock(t *testing.T, what, response, height string, stale bool) {
	t.Helper()
	if head, _, _ := strings.Cut(response, "\r\n\r\n"); !strings.Contains(head+"\r\n", "\r\nX-Block-Height: "+height+"\r\n") || strings.Contains(head, "stale-while-revalidate") != stale {
		t.Errorf("%s: headers = %s, want block %s, stale: %t", what, head, height, stale)
	}
}

// setAhead makes answers come from blocks after the tip, as entries of another replica may.
func (f *fakeChain) setAhead(blocks int64) {
	f.change(func(f *fakeChain) { f.behind = -blocks })
}

// growSoon adds a block while the next request waits for it.
func (f *fakeChain) growSoon() { time.AfterFunc(20*time.Millisecond, func() { f.grow(1) }) }

func TestHeightsDoNotGoBackOnAConnection(t *testing.T) {
	withAndWithoutLane(t, proxy.Options{Chain: story.Options{Patience: time.Minute}}, func(t *testing.T, s *chainService) {
		client, other := dial(t, s.Listener.Addr()), dial(t, s.Listener.Addr())
		for range 4 {
			expectBlock(t, "at the tip", client.roundTrip(t, getPool), "228", false)
		}
		s.chain.setAhead(1)
		for range 3 { // on connections that have seen no block
			expectBlock(t, "entry of another replica", dial(t, s.Listener.Addr()).roundTrip(t, getValidators), "229", false)
		}
		s.chain.setAhead(0)
		expectBlock(t, "cached entry of another replica", client.roundTrip(t, getValidators), "229", false)
		expectBlock(t, "another connection", other.roundTrip(t, getPool), "228", false)
		for range 4 { // without a wait
			expectBlock(t, "cached entry, again", client.roundTrip(t, getValidators), "229", false)
		}
		s.chain.growSoon()
		expectBlock(t, "first key again", client.roundTrip(t, getPool), "229", false)
	})
}
