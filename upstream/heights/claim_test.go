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
