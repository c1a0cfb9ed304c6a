package heights_test

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

func TestUnreadableHeightFarAheadIsIgnored(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.silent, n.lie = true, 1000 })
		c.blocks(5)
		if got := c.Tip().Height; got > n.newest()+tip.Slack {
			t.Errorf("tip = %d, want about %d\n%s", got, n.newest(), c.log)
		}
	}, n)
}

func TestHeightFarAheadNeedsAReadHoweverManyNodesClaimIt(t *testing.T) {
	nodes := []*fakeNode{newFakeNode(990), newFakeNode(990), newFakeNode(990)}
	runChain(t, func(t *testing.T, c *followed) {
		for _, n := range nodes[:2] {
			n.change(func() { n.lie = 1 << 40 })
		}
		for range 5 {
			for _, n := range nodes {
				n.commit()
				c.wait(interval / 3)
				if got := c.Tip().Height; got > nodes[2].newest()+1 {
					t.Fatalf("tip = %d while two nodes claim a false height, want about %d\n%s", got, nodes[2].newest(), c.log)
				}
			}
		}
		for _, n := range nodes {
			n.change(func() { n.lie, n.height = 0, n.height+1000 })
		}
		c.current(5)
	}, nodes...)
}

// TestHeightNamedByARefusalMustBeReadable starts with CometBFT of both nodes down, and one REST server that has pruned
// the first blocks and names a false newest height.
func TestHeightNamedByARefusalMustBeReadable(t *testing.T) {
	liar, honest := newFakeNode(990), newFakeNode(990)
	liar.hangs, liar.refuses, liar.latest = true, func(height int64) bool { return height < 500 }, 1e9
	runChain(t, func(t *testing.T, c *followed) {
		c.blocks(20)
		if got := c.Tip().Height; got > honest.newest()+tip.Slack {
			t.Errorf("tip = %d, want about %d\n%s", got, honest.newest(), c.log)
		}
	}, liar, honest)
}
