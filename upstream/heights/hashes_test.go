package heights_test

import (
	"fmt"
	"testing"
)

// withoutHeaders are the nodes that tell of no block by themselves.
func withoutHeaders(t *testing.T, test func(t *testing.T, c *followed)) {
	t.Helper()
	for name, n := range map[string]*fakeNode{"CometBFT is polled": {polled: true}, "the REST server is": {alone: true}} {
		t.Run(name, func(t *testing.T) {
			n.height, n.hash = 1000, func(height int64) string { return fmt.Sprint("A", height) }
			following(t, test, n)
		})
	}
}

func TestTheHashOfTheBlockBeforeIsKnownWithEachHeight(t *testing.T) {
	withoutHeaders(t, func(t *testing.T, c *followed) {
		asked := c.nodes[0].named
		for range 20 {
			c.block()
			if now := c.Tip(); c.HashOf(now.Height-1) != fmt.Sprint("A", now.Height-1) {
				t.Errorf("tip %+v, and the hash of the block before is %q", now, c.HashOf(now.Height-1))
			}
		}
		if asked = c.nodes[0].named - asked; c.nodes[0].alone && (asked < 19 || asked > 21) {
			t.Errorf("%d blocks were read for 20 heights", asked)
		}
	})
}

func TestAChainThatIsSetBackIsKnownByItsNextBlock(t *testing.T) {
	withoutHeaders(t, func(t *testing.T, c *followed) {
		lost := c.Tip().Height - 1
		n := c.nodes[0]
		n.change(func() {
			n.height -= 10
			fork := n.height
			n.hash = func(height int64) string {
				if height > fork {
					return fmt.Sprint("B", height)
				}
				return fmt.Sprint("A", height)
			}
		})
		c.blocks(3)
		if c.Tip().Epoch == 0 || c.epochs.Load() != 1 || !c.Replaced(lost, fmt.Sprint("A", lost)) {
			t.Fatalf("after %d epochs: %+v; block %d was replaced: %t\n%s", c.epochs.Load(), c.Tip(), lost, c.Replaced(lost, fmt.Sprint("A", lost)), c.log)
		}
		if c.blocks(12); c.HashOf(lost) != fmt.Sprint("B", lost) || !c.Replaced(lost, fmt.Sprint("A", lost)) {
			t.Fatalf("block %d has the hash %q", lost, c.HashOf(lost))
		}
	})
}

// Nothing waits for what a node does not tell, and it is not asked in vain at each block.
func TestANodeThatTellsNoHashIsFollowedAsBefore(t *testing.T) {
	n := newFakeNode(1000)
	n.alone = true
	following(t, func(t *testing.T, c *followed) {
		n.change(func() { n.hash = func(int64) string { return "" } })
		c.current(10)
		n.change(func() { n.unnamed = true })
		asked := n.named
		c.current(100)
		if asked = n.named - asked; asked > 20 {
			t.Errorf("for 100 blocks it was asked %d times", asked)
		}
	}, n)
}

// Of two nodes without CometBFT one is on another fork: it is not believed, and no epoch begins.
func TestAForkOfOneNodeEndsNoEpoch(t *testing.T) {
	a, b := newFakeNode(1000), newFakeNode(1000)
	a.alone, b.alone = true, true
	following(t, func(t *testing.T, c *followed) {
		b.change(func() { b.hash = func(height int64) string { return fmt.Sprint("B", height) } })
		c.current(10)
		b.change(func() { b.height -= 3 })
		c.current(10)
		for height := c.Tip().Height - 5; height < c.Tip().Height; height++ {
			if got := c.HashOf(height); got != fmt.Sprint("A", height) {
				t.Errorf("block %d has the hash %q", height, got)
			}
		}
		if c.epochs.Load() > 0 {
			t.Errorf("%d epochs\n%s", c.epochs.Load(), c.log)
		}
	}, a, b)
}

// TestNodeIsUsedAgainAfterItsForkEnds rejoins a node whose blocks are those of the chain again.
func TestNodeIsUsedAgainAfterItsForkEnds(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	following(t, func(t *testing.T, c *followed) {
		chain := other.hash
		other.change(func() { other.hash = func(height int64) string { return fmt.Sprint("F", height) } })
		c.blocks(5)
		if !c.known[1].Look().Forked {
			t.Fatalf("Forked = false on another fork, want true\n%s", c.log)
		}
		other.change(func() { other.hash = chain })
		c.blocks(5)
		if c.known[1].Look().Forked {
			t.Errorf("Forked = true after the fork ended, want false\n%s", c.log)
		}
	}, ours, other)
}
