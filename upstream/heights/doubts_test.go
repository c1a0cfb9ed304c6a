package heights_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

func TestOnlyNodesAtTheTipAreReadForTheNextBlock(t *testing.T) {
	for name, change := range map[string]func(*fakeNode){
		"node behind":      func(n *fakeNode) { n.height -= 30 },
		"node catching up": func(n *fakeNode) { n.catchingUp = true },
	} {
		high, other := newFakeNode(990), newFakeNode(990)
		change(other)
		runChain(t, func(t *testing.T, c *followed) {
			last := c.Tip().Since
			c.wait(5 * interval)
			want := []time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond, 3500 * time.Millisecond, 4500 * time.Millisecond, 5500 * time.Millisecond}
			expect.NoDiff(t, high.readsSince(last), want, "%s: delays of reads of the node at the tip", name)
			if got := other.readsSince(last.Add(-5 * interval)); len(got) > 0 {
				t.Errorf("%s: reads of this node at %v, want none", name, got)
			}
		}, high, other)
	}
}

func TestLateBlockBecomesTipWhenRead(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		c.wait(interval / 4) // not in step with the REST polls
		c.block()
		n.change(func() { n.hangs = true })
		n.commit()
		c.wait(interval/2 + time.Millisecond)
		expect.Equal(t, c.Tip().Height, n.newest(), "tip")
	}, n)
}

func TestPollNowPollsAtOnce(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		c.wait(interval / 10)
		before := n.statusCalls
		c.PollNow(t.Context(), c.known[0])
		synctest.Wait()
		expect.Equal(t, n.statusCalls-before, 1, "calls of /status")
	}, n)
}

// The headers of a distrusted source do not cause a read each.
func TestDistrustedSourceIsReadOncePerInterval(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.lie = 10_000 })
		c.block()
		now := time.Now()
		for range 100 {
			n.commit()
		}
		c.wait(10 * interval)
		far := 0
		for _, r := range n.reads {
			if r.at.After(now) && r.height > n.height {
				far++
			}
		}
		if c.log.Count("ignoring the node") != 1 || far > 60 {
			t.Errorf("reads above the tip in 10 intervals = %d, want at most 60; want 1 log line\n%s", far, c.log)
		}
	}, n)
}

func TestImplausibleHeightOfARESTServerIsIgnored(t *testing.T) {
	n := newFakeNode(990)
	n.restOnly, n.reports = true, true
	runChain(t, func(t *testing.T, c *followed) {
		c.current(3)
		n.change(func() { n.lie = 1 << 40 })
		c.block()
		n.change(func() { n.lie = 0 })
		if got := c.Tip().Height; got > n.newest() {
			t.Errorf("tip = %d after an implausible height, want at most %d", got, n.newest())
		}
		c.blocks(2)
		c.current(2 * int(rollback/interval))
		expect.Equal(t, c.epochs.Load(), 0, "new epochs")
	}, n)
}

func TestReportedHeightOfARESTServerIsNotProved(t *testing.T) {
	n := newFakeNode(990)
	n.restOnly, n.reports = true, true
	runChain(t, func(t *testing.T, c *followed) {
		c.current(3)
		n.change(func() { n.lie = tip.Slack })
		c.wait(2 * interval)
		n.change(func() { n.lie = 0 })
		c.block()
		expect.Equal(t, c.Tip().Height, n.newest(), "tip after a plausible height that no read proved")
		expect.Equal(t, c.epochs.Load(), 0, "new epochs")
	}, n)
}

func TestTipIsUnconfirmedFromLowerHeaderUntilNextEpoch(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		c.current(3)
		if c.Tip().Unconfirmed {
			t.Error("Unconfirmed = true before the rollback, want false")
		}
		n.change(func() { n.height -= 50; n.busy = true })
		n.commit()
		synctest.Wait()
		for passed := time.Duration(0); c.epochs.Load() == 0; passed += interval / 10 {
			if !c.Tip().Unconfirmed {
				t.Fatalf("Unconfirmed = false %v after the first lower header, want true\n%s", passed, c.log)
			}
			if passed == interval/2 {
				n.change(func() { n.busy = false })
			}
			if passed > 3*rollback {
				t.Fatalf("no epoch began %v after the rollback\n%s", passed, c.log)
			}
			c.wait(interval / 10)
		}
		if tip := c.Tip(); tip.Unconfirmed || tip.Height != n.newest() {
			t.Errorf("tip = %+v, want height %d, confirmed\n%s", tip, n.newest(), c.log)
		}
	}, n)
}

func TestTipIsConfirmedAfterRejectedContradiction(t *testing.T) {
	for name, contradict := range map[string]func(n *fakeNode){
		"a late header": func(n *fakeNode) { n.lag = 5 },
		"a low height":  func(n *fakeNode) { n.low = 20 },
		"another hash":  func(n *fakeNode) { n.hash = func(height int64) string { return fmt.Sprint("B", height) } },
	} {
		t.Run(name, func(t *testing.T) {
			n, other := newFakeNode(990), newFakeNode(990)
			runChain(t, func(t *testing.T, c *followed) {
				c.current(3)
				n.change(func() { contradict(n) })
				c.blocks(10)
				if tip := c.Tip(); tip.Unconfirmed || tip.Height != other.newest() || tip.Epoch != 0 {
					t.Errorf("tip = %+v, want height %d, confirmed\n%s", tip, other.newest(), c.log)
				}
			}, n, other)
		})
	}
}

// One node is on a fork and streams headers. Another does not respond, so each comparison of hashes waits for it.
func TestKnownForkDoesNotMakeTheTipUnconfirmed(t *testing.T) {
	ours, busy, other := newFakeNode(990), newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		other.fork(0)
		busy.change(func() { busy.busy = true })
		c.blocks(5)
		for range 20 {
			c.block()
			if tip := c.Tip(); tip.Unconfirmed || tip.Height != ours.newest() || c.known[2].State().Fork == 0 {
				t.Fatalf("tip = %+v, want height %d, confirmed, and the fork excluded\n%s", tip, ours.newest(), c.log)
			}
		}
	}, ours, busy, other)
}

func TestNextHeaderSettlesTheContradictionOfALowerOne(t *testing.T) {
	n, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.busy, n.lag = true, 5 })
		c.block()
		n.change(func() { n.lag = 0 })
		c.blocks(10)
		if tip := c.Tip(); tip.Unconfirmed || tip.Height != other.newest() {
			t.Errorf("tip = %+v, want height %d, confirmed\n%s", tip, other.newest(), c.log)
		}
	}, n, other)
}
