package heights_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights"
)

// withoutHeaders runs a test with nodes that stream no headers.
func withoutHeaders(t *testing.T, test func(t *testing.T, c *followed)) {
	t.Helper()
	for name, n := range map[string]*fakeNode{"CometBFT is polled": {polled: true}, "REST server is polled": {restOnly: true}} {
		t.Run(name, func(t *testing.T) {
			n.height, n.hash = 1000, func(height int64) string { return fmt.Sprint("A", height) }
			runChain(t, test, n)
		})
	}
}

func TestParentHashIsKnownWithEachHeight(t *testing.T) {
	withoutHeaders(t, func(t *testing.T, c *followed) {
		before := c.nodes[0].hashReads
		for range 20 {
			c.block()
			if now := c.Tip(); c.HashOf(now.Height-1) != fmt.Sprint("A", now.Height-1) {
				t.Errorf("tip = %+v, hash of its parent = %q", now, c.HashOf(now.Height-1))
			}
		}
		if got := c.nodes[0].hashReads - before; c.nodes[0].restOnly && (got < 19 || got > 21) {
			t.Errorf("hash reads for 20 heights = %d, want 19 to 21", got)
		}
	})
}

func TestNextBlockRevealsRollback(t *testing.T) {
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
			t.Fatalf("new epochs = %d, want 1; tip = %+v; Replaced(%d) = %t, want true\n%s", c.epochs.Load(), c.Tip(), lost, c.Replaced(lost, fmt.Sprint("A", lost)), c.log)
		}
		if c.blocks(12); c.HashOf(lost) != fmt.Sprint("B", lost) || !c.Replaced(lost, fmt.Sprint("A", lost)) {
			t.Fatalf("HashOf(%d) = %q, want B%d and the old block replaced", lost, c.HashOf(lost), lost)
		}
	})
}

func TestEachNodeIsCurrentAsSoonAsItsHeaderArrives(t *testing.T) {
	runChain(t, func(t *testing.T, c *followed) {
		for range 5 {
			for i, n := range c.nodes {
				n.commit()
				synctest.Wait()
				expect.Equal(t, c.known[i].State().Height, n.newest(), "height of node %d after its header", i)
			}
			c.wait(interval)
		}
	}, newFakeNode(990), newFakeNode(990))
}

// The follower does not wait for missing hashes, and tries to read them only now and then.
func TestNodeWithoutHashesIsFollowed(t *testing.T) {
	n := newFakeNode(1000)
	n.restOnly = true
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.hash = func(int64) string { return "" } })
		c.current(10)
		n.change(func() { n.hashless = true })
		before := n.hashReads
		c.current(100)
		if got := n.hashReads - before; got > 20 {
			t.Errorf("hash reads for 100 blocks = %d, want at most 20", got)
		}
	}, n)
}

// One of two nodes without CometBFT is on another fork.
func TestForkOfOneNodeBeginsNoEpoch(t *testing.T) {
	a, b := newFakeNode(1000), newFakeNode(1000)
	a.restOnly, b.restOnly = true, true
	runChain(t, func(t *testing.T, c *followed) {
		b.change(func() { b.hash = func(height int64) string { return fmt.Sprint("B", height) } })
		c.current(10)
		b.change(func() { b.height -= 3 })
		c.current(10)
		for height := c.Tip().Height - 5; height < c.Tip().Height; height++ {
			expect.Equal(t, c.HashOf(height), fmt.Sprint("A", height), "HashOf(%d) of A%d", height, height)
		}
		if c.epochs.Load() > 0 {
			t.Errorf("new epochs = %d, want 0\n%s", c.epochs.Load(), c.log)
		}
	}, a, b)
}

func TestLongHashesAreNotKept(t *testing.T) {
	n := newFakeNode(990)
	n.hash = func(int64) string { return strings.Repeat("A", 65) }
	runChain(t, func(t *testing.T, c *followed) {
		c.current(3)
		expect.Equal(t, c.HashOf(c.Tip().Height-1), "", "HashOf the last block with a header")
	}, n)
}

func TestNodeIsUsedAgainAfterItsForkEnds(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		chain := other.hash
		other.fork(0)
		c.blocks(5)
		if s := c.known[1].State(); !s.Foreign() {
			t.Fatalf("Foreign() = false on another fork, want true\n%s", c.log)
		}
		other.change(func() { other.hash, other.lie = func(int64) string { return "" }, 5 })
		c.current(3) // a header without a hash says nothing of the fork
		other.change(func() { other.hash, other.lie = chain, 0 })
		c.blocks(5)
		if s := c.known[1].State(); s.Foreign() {
			t.Errorf("Foreign() = true after the fork ended, want false\n%s", c.log)
		}
	}, ours, other)
}

func TestNodeWhoseHeadersComeFirstIsUsedAgainAfterItsFork(t *testing.T) {
	other, ours := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		chain := other.hash
		other.fork(1)
		c.blocks(3)
		if c.known[0].State().Fork == 0 {
			t.Fatalf("Fork = 0 on another fork\n%s", c.log)
		}
		other.change(func() { other.hash, other.height = chain, ours.newest() })
		c.blocks(5)
		if v := c.known[0].State(); v.Fork != 0 || v.Height != c.Tip().Height {
			t.Errorf("state = %+v with tip %d, want the node used\n%s", v, c.Tip().Height, c.log)
		}
	}, other, ours)
}

// A proxy connects the WebSocket to a server on a fork. Its headers come late at first. Later they come first.
func TestHeadersOfForkAreNotFollowedIfTheRPCServerHasTheChain(t *testing.T) {
	other, ours := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		other.change(func() { other.streamed = func(height int64) string { return fmt.Sprint("F", height) } })
		ours.commit()
		synctest.Wait()
		other.commit()
		c.wait(interval)
		if c.known[0].State().Fork == 0 {
			t.Fatalf("Fork = 0 with headers of a fork\n%s", c.log)
		}
		c.blocks(5)
		parent := ours.newest() - 1
		if got := c.HashOf(parent); got != fmt.Sprint("A", parent) || c.epochs.Load() > 0 || c.known[1].State().Fork != 0 {
			t.Errorf("HashOf(%d) = %q after %d epochs, want A%d and none\n%s", parent, got, c.epochs.Load(), parent, c.log)
		}
		other.change(func() { other.streamed = nil })
		c.blocks(3)
		if v := c.known[0].State(); v.Fork != 0 || v.Height != c.Tip().Height {
			t.Errorf("state = %+v with tip %d, want the node used\n%s", v, c.Tip().Height, c.log)
		}
	}, other, ours)
}

// A node on a fork may be the first to have each block, or, without a stream of headers, never be.
func TestForkOfOneOfThreeNodesIsExcluded(t *testing.T) {
	for name, order := range map[string][]int{"its blocks come first": {0, 1, 2}, "its blocks come last": {1, 2, 0}} {
		for _, other := range []*fakeNode{{}, {polled: true}, {restOnly: true}} {
			other.height, other.hash = 990, func(height int64) string { return fmt.Sprint("A", height) }
			all := [...]*fakeNode{other, newFakeNode(990), newFakeNode(990)}
			runChain(t, func(t *testing.T, c *followed) {
				other.fork(0)
				c.blocks(5)
				for _, n := range c.known {
					v := n.State()
					if got, want := v.Fork != 0, n.Reader == other; got != want {
						t.Errorf("%s (polled: %t, REST only: %t): excluded = %t, want %t: %+v\n%s", name, other.polled, other.restOnly, got, want, v, c.log)
					}
				}
				if tip := c.Tip(); c.HashOf(tip.Height-1) != fmt.Sprint("A", tip.Height-1) || tip.Height < all[1].newest()-1 || c.epochs.Load() > 1 {
					t.Errorf("%s: tip = %+v with hash %s below after %d epochs, want A and at most one epoch\n%s", name, tip, c.HashOf(tip.Height-1), c.epochs.Load(), c.log)
				}
			}, all[order[0]], all[order[1]], all[order[2]])
		}
	}
}

func TestForkIsNotFollowedDuringARestart(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		other.fork(0)
		c.blocks(5)
		for range 3 {
			ours.setDown(true)
			c.blocks(30)
			ours.setDown(false)
			c.blocks(10)
			if ours, other := c.known[0].State(), c.known[1].State(); ours.Foreign() || !other.Foreign() || c.epochs.Load() > 0 {
				t.Fatalf("forks = %d and %d after %d new epochs, want only the second node on a fork and 0\n%s", ours.Fork, other.Fork, c.epochs.Load(), c.log)
			}
		}
		c.current(5)
	}, ours, other)
}

// The headers of the fork come first, so that only the block at which it was noticed has been compared, long ago.
func TestOldForkIsNotFollowedDuringARestart(t *testing.T) {
	other, ours := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		other.fork(0)
		ours.commit()
		synctest.Wait()
		other.commit()
		c.wait(interval)
		c.blocks(5000)
		ours.setDown(true)
		c.blocks(30)
		ours.setDown(false)
		c.blocks(10)
		if other, ours := c.known[0].State(), c.known[1].State(); ours.Foreign() || !other.Foreign() || c.epochs.Load() > 0 {
			t.Errorf("forks = %d and %d after %d new epochs, want only the first node on a fork and 0\n%s", other.Fork, ours.Fork, c.epochs.Load(), c.log)
		}
	}, other, ours)
}

// While the hash in a header is compared, the next block is late and read through the REST server.
func TestLateBlockOfForkIsNotFollowedDuringARestart(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		ours.setDown(true)
		c.wait(5 * interval)
		other.fork(1)
		other.commit()
		other.commit()
		c.wait(5 * interval)
		if got := c.HashOf(1000); got != "" || c.known[1].State().Fork == 0 || c.Tip().Height > 1000 || c.epochs.Load() > 0 {
			t.Errorf("tip = %+v with hash %q below, want 1000, no hash and the node on a fork\n%s", c.Tip(), got, c.log)
		}
	}, ours, other)
}

func TestForkThatEndedDoesNotShortenTheNextWait(t *testing.T) {
	for _, restOnly := range []bool{false, true} {
		ours, other := newFakeNode(990), newFakeNode(990)
		ours.restOnly, other.restOnly = restOnly, restOnly
		runChain(t, func(t *testing.T, c *followed) {
			chain := other.hash
			for range 2 {
				ours.setDown(true)
				c.wait(5 * interval)
				other.fork(1)
				other.commit()
				other.commit()
				c.wait(5 * interval)
				if c.epochs.Load() > 0 {
					t.Fatalf("epoch began while the other node restarts (REST only: %t)\n%s", restOnly, c.log)
				}
				other.change(func() { other.hash, other.height = chain, other.height-2 })
				other.commit()
				c.wait(3 * interval)
				ours.change(func() { ours.hangs, ours.silent, ours.height = false, false, other.newest() })
				c.blocks(80)
			}
		}, ours, other)
	}
}

// TestForkIsFollowedWhenNoOtherNodeHasTheChain loses the node that contradicts the fork.
func TestForkIsFollowedWhenNoOtherNodeHasTheChain(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		other.fork(0)
		c.blocks(5)
		ours.setDown(true)
		c.blocks(80)
		if got := c.Tip(); c.known[1].State().Fork != 0 || got.Height != other.newest() || c.epochs.Load() != 1 {
			t.Errorf("tip = %d in epoch %d with Fork = %d, want %d in the second epoch with 0\n%s", got.Height, got.Epoch, c.known[1].State().Fork, other.newest(), c.log)
		}
	}, ours, other)
}

func TestForkIsFollowedAtOnceIfTheOtherNodeIsDownForLong(t *testing.T) {
	down, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		down.setDown(true)
		c.wait(2 * time.Hour)
		other.fork(5)
		c.blocks(3)
		if got := c.epochs.Load(); got != 1 {
			t.Errorf("new epochs = %d, want 1\n%s", got, c.log)
		}
	}, down, other)
}

func TestForkIsNotFollowedWhileADistrustedNodeRestarts(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		c.blocks(5)
		ours.change(func() { ours.lie, ours.silent = 1000, true })
		c.blocks(3)
		ours.change(func() { ours.hangs = true })
		c.blocks(1)
		other.fork(5)
		c.blocks(4)
		if got := c.epochs.Load(); got != 0 {
			t.Errorf("new epochs = %d, want 0\n%s", got, c.log)
		}
	}, ours, other)
}

func TestRESTServerOfAnotherChainIsNotFollowed(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(5000)
	ours.restOnly, other.restOnly, ours.reports, other.reports = true, true, true, true
	ours.chain, other.chain = "story-1", "story-2"
	runChain(t, func(t *testing.T, c *followed) {
		if v := c.known[1].State(); !v.Foreign() || v.ChainID != "story-2" || c.Tip().Height > 1010 {
			t.Errorf("state = %+v with tip %d, want the node refused and the tip of the other one\n%s", v, c.Tip().Height, c.log)
		}
		other.change(func() { other.silent = true })
		c.wait(time.Minute)
		other.change(func() { other.silent, other.chain, other.height = false, "story-1", ours.newest() })
		c.blocks(5)
		if v := c.known[1].State(); v.Foreign() || v.Height == 0 {
			t.Errorf("state = %+v, want the node used once it serves the chain\n%s", v, c.log)
		}
		other.change(func() { other.silent = true })
		c.wait(time.Minute)
		other.change(func() { other.silent, other.chain, other.height = false, "story-2", 5000 })
		c.blocks(5)
		if v := c.known[1].State(); !v.Foreign() || c.Tip().Height > 1100 {
			t.Errorf("state = %+v with tip %d, want the replaced node refused\n%s", v, c.Tip().Height, c.log)
		}
	}, ours, other)
}

// The hash in a header of a block that does not exist yet is not compared with the block when it arrives.
func TestHashOfAFalseHeaderDoesNotResetTheChain(t *testing.T) {
	honest, liar := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		liar.change(func() {
			liar.lie, liar.streamed = 5, func(height int64) string { return fmt.Sprint("A", height-5) }
		})
		c.block()
		c.RecordReading(c.known[0], 0, heights.Reading{Height: c.Tip().Height, Outcome: heights.Future}) // a request doubts the tip
		liar.change(func() { liar.lie, liar.streamed = 0, nil })
		c.blocks(10)
		expect.Equal(t, c.epochs.Load(), 0, "epochs that began")
		expect.Equal(t, c.Tip().Height, honest.newest(), "tip")
	}, honest, liar)
}

// One of two nodes streams headers with false hashes, always before the other one, whose headers show it.
func TestFalseHeadersOfOneNodeBeginNoEpoch(t *testing.T) {
	for ahead := range int64(4) {
		liar, honest := newFakeNode(990), newFakeNode(990)
		runChain(t, func(t *testing.T, c *followed) {
			liar.change(func() {
				liar.lie, liar.streamed = ahead, func(height int64) string { return fmt.Sprint("L", height) }
			})
			c.blocks(40)
			expect.Equal(t, c.epochs.Load(), 0, "epochs that began, with headers %d blocks ahead\n%s", ahead, c.log)
			expect.Equal(t, c.Tip().Height, honest.newest(), "tip, with headers %d blocks ahead", ahead)
			expect.Equal(t, c.HashOf(c.Tip().Height-5), fmt.Sprint("A", c.Tip().Height-5), "hash of a block, with headers %d blocks ahead", ahead)
		}, liar, honest)
	}
}
