package heights_test

import "testing"

// Two nodes of five are on a fork, and have each block before most of the others.
func TestForkIsNotFollowedWhileOtherNodesAreAboutToHaveTheBlock(t *testing.T) {
	a, f, g, b, d := newFakeNode(990), newFakeNode(990), newFakeNode(990), newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		f.fork(0)
		g.fork(0)
		c.blocks(10)
		if c.epochs.Load() > 0 || c.known[1].State().Fork == 0 || c.known[2].State().Fork == 0 {
			t.Errorf("new epochs = %d, want 0, and the second and third node excluded\n%s", c.epochs.Load(), c.log)
		}
	}, a, f, g, b, d)
}

// Half of the nodes are on a fork.
func TestForkIsNotFollowedWhileOneOfTwoOtherNodesRestarts(t *testing.T) {
	a, b, f, g := newFakeNode(990), newFakeNode(990), newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		f.fork(0)
		g.fork(0)
		c.blocks(5)
		b.change(func() { b.hangs, b.silent = true, true })
		c.blocks(30)
		b.change(func() { b.hangs, b.silent = false, false })
		c.blocks(30)
		if c.epochs.Load() > 0 || c.known[2].State().Fork == 0 || c.known[3].State().Fork == 0 {
			t.Errorf("new epochs = %d, want 0, and the third and fourth node excluded\n%s", c.epochs.Load(), c.log)
		}
	}, a, b, f, g)
}
