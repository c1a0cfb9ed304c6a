package heights_test

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

func TestAHeightFarAheadThatCannotBeReadCountsForNothing(t *testing.T) {
	n := newFakeNode(990)
	following(t, func(t *testing.T, c *followed) {
		n.change(func() { n.silent, n.lie = true, 1000 })
		c.blocks(5)
		if got := c.Tip().Height; got > n.newest()+tip.Slack {
			t.Errorf("tip %d, want about %d: what CometBFT said was not to be read\n%s", got, n.newest(), c.log)
		}
	}, n)
}
