package heights_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights"
)

func TestLateHeadersDoNotDelayTheTip(t *testing.T) {
	for name, lag := range map[string]int64{"headers of block 1": 1 << 40, "23 blocks behind": 23, "5 blocks behind": 5} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(990)
			runChain(t, func(_ *testing.T, c *followed) {
				n.change(func() { n.lag = lag })
				c.current(100)
				n.change(func() { n.lag = 0 })
				c.current(100)
				expect.Equal(t, c.epochs.Load(), 0, "new epochs")
			}, n)
		})
	}
}

func TestCometBFTThatClaimsLowHeightsIsDistrusted(t *testing.T) {
	for name, low := range map[string]int64{"block 1": 1 << 40, "23 blocks behind": 23} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(990)
			runChain(t, func(t *testing.T, c *followed) {
				n.change(func() { n.lag, n.low = low, low })
				c.current(200)
				if got := c.log.Count("ignoring the node"); got != 1 {
					t.Errorf("log lines about the distrusted source = %d, want 1\n%s", got, c.log)
				}
				n.change(func() { n.lag, n.low = 0, 0 })
				c.current(100)
				if got := c.log.Count("trusting the node"); got != 1 {
					t.Errorf("log lines about the trusted source = %d, want 1\n%s", got, c.log)
				}
			}, n)
		})
	}
}

func TestRESTServerReplacesHangingCometBFT(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.hangs = true })
		c.current(60)
		n.change(func() { n.hangs = false })
		c.current(60)
		now := time.Now()
		c.current(10)
		if reads := n.readsSince(now); len(reads) > 0 {
			t.Errorf("REST reads after CometBFT recovered, at %v; want none", reads)
		}
	}, n)
}

func TestNoRESTReadsWhileHeadersArriveInTime(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		now, before := time.Now(), n.statusCalls
		c.current(30)
		if reads := n.readsSince(now); len(reads) > 0 {
			t.Errorf("REST reads at %v, want none", reads)
		}
		if got := n.statusCalls - before; got < 9 || got > 11 {
			t.Errorf("calls of /status in 30 blocks = %d, want 9 to 11", got)
		}
	}, n)
}

func TestLateBlockIsReadAtGrowingIntervals(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		last := c.Tip().Since
		c.wait(45 * interval)
		var want []time.Duration
		for _, after := range []float64{1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 20.5, 30.5, 40.5} {
			want = append(want, time.Duration(after*float64(interval)))
		}
		expect.NoDiff(t, n.readsSince(last), want, "delays of reads")
		if tip := c.Tip(); !tip.Known || c.log.Count("WARN") > 0 {
			t.Errorf("tip = %+v, want it known without a warning while the chain stands still\n%s", tip, c.log)
		}
	}, n)
}

func TestPanicsKeepTipAndEpoch(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		before := c.Tip()
		n.change(func() {
			n.height++ // without a header
			n.refuses = func(int64) bool { panic("test") }
		})
		c.wait(3 * interval) // the next block is late and read through the REST server
		if c.log.Count("dropped an input") == 0 {
			t.Fatal("no log line about a dropped input, want one per read")
		}
		if now := c.Tip(); now.Height < before.Height || now.Epoch != before.Epoch {
			t.Errorf("tip = %d in epoch %d, want %d or more in epoch %d", now.Height, now.Epoch, before.Height, before.Epoch)
		}
		n.change(func() { n.refuses = nil })
		c.current(3)
	}, n)
}

func TestEpochBeginsWhenNoNodeReadsTheProvedHeight(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.height = 900 })
		for range 5 {
			c.block()
			if c.Tip().Epoch > 0 {
				t.Fatal("epoch began before the rollback time has passed")
			}
		}
		c.blocks(15)
		if got := c.Tip(); c.epochs.Load() != 1 || got.Height != n.newest() {
			t.Errorf("tip = %+v after %d new epochs, want height %d after 1\n%s", got, c.epochs.Load(), n.newest(), c.log)
		}
	}, n)
}

// The chain stands still, so that only the proved height can be read.
func TestAnsweredReadEndsTheFall(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		refused := true
		n.change(func() {
			n.lag, n.low = 1<<40, 1<<40
			n.refuses = func(int64) bool { return refused }
		})
		c.wait(8 * time.Second)
		if c.log.Count("ignoring the node") > 0 {
			t.Fatalf("source distrusted before a read was answered\n%s", c.log)
		}
		n.change(func() { refused = false })
		c.wait(2 * time.Second)
		n.change(func() { refused = true })
		if c.log.Count("ignoring the node") == 0 { // twice if a poll ends at the same moment
			t.Errorf("source not distrusted after an answered read\n%s", c.log)
		}
		c.wait(8 * time.Second)
		if c.epochs.Load() > 0 {
			t.Errorf("epoch began although a read was answered\n%s", c.log)
		}
		c.wait(12 * time.Second)
		if c.epochs.Load() != 1 {
			t.Errorf("new epochs = %d after all reads failed, want 1\n%s", c.epochs.Load(), c.log)
		}
	}, n)
}

func TestSlightlyLateRPCServerDoesNotLowerTheTip(t *testing.T) {
	for _, low := range []int64{1, 3} {
		n := newFakeNode(990)
		runChain(t, func(t *testing.T, c *followed) {
			n.change(func() { n.low = low })
			for range 30 {
				n.commit()
				synctest.Wait()
				for range 4 {
					if got := c.Tip().Height; got != n.newest() {
						t.Fatalf("tip = %d, want %d", got, n.newest())
					}
					time.Sleep(interval / 4)
					synctest.Wait()
				}
			}
			if c.log.String() != "" {
				t.Errorf("%d blocks behind: log = %s, want it empty", low, c.log)
			}
		}, n)
	}
}

func TestSubscriptionSurvivesSilentRPCServer(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.busy = true })
		now := time.Now()
		c.current(30)
		if len(n.sockets) != 1 || len(n.readsSince(now)) > 0 || c.log.String() != "" {
			t.Errorf("sockets = %d, want 1; REST reads at %v, want none; log:\n%s", len(n.sockets), n.readsSince(now), c.log)
		}
	}, n)
}

func TestNextHeaderLowersUnprovedTip(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.lie = 5 })
		n.commit()
		c.wait(interval / 2) // before the claim is checked
		if got := c.Tip().Height; got != n.newest()+5 {
			t.Fatalf("tip = %d, want the claimed %d", got, n.newest()+5)
		}
		n.change(func() { n.lie = 0 })
		n.commit()
		synctest.Wait()
		expect.Equal(t, c.Tip().Height, n.newest(), "tip")
	}, n)
}

func TestOneNodeThatReadsTheProvedHeightPreventsAnEpoch(t *testing.T) {
	answering, refusing := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		for _, n := range c.nodes {
			n.change(func() { n.lag, n.low = 1<<40, 1<<40 })
		}
		refusing.change(func() { refusing.refuses = func(int64) bool { return true } })
		c.blocks(60)
		expect.Equal(t, c.epochs.Load(), 0, "new epochs")
	}, answering, refusing)
}

func TestEpochNeedsARefusedRead(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() { n.height = 900 })
		c.blocks(6)
		n.change(func() { n.silent = true })
		c.blocks(30)
		expect.Equal(t, c.epochs.Load(), 0, "new epochs while no node responded")
		n.change(func() { n.silent = false })
		c.blocks(20)
		if c.epochs.Load() != 1 {
			t.Errorf("new epochs = %d, want 1\n%s", c.epochs.Load(), c.log)
		}
	}, n)
}

func TestRefusalThatNamesHigherBlockPreventsAnEpoch(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		n.change(func() {
			n.lag, n.low, n.latest = 1<<40, 1<<40, 5000
			n.refuses = func(int64) bool { return true }
		})
		c.wait(time.Minute)
		if c.epochs.Load() > 0 {
			t.Errorf("new epochs = %d, want 0\n%s", c.epochs.Load(), c.log)
		}
		if low, tip := c.known[0].State().Lowest, c.Tip().Height; low > tip {
			t.Errorf("Lowest = %d, want at most the tip %d", low, tip)
		}
	}, n)
}

func TestLowestHeightStaysWithinKnownHeights(t *testing.T) {
	pruned := func(height int64) heights.Reading { return heights.Reading{Outcome: heights.Pruned, Height: height} }
	for _, tt := range []struct {
		name  string
		learn []heights.Reading
		want  int64
	}{
		{"refused below the tip", []heights.Reading{pruned(400)}, 401},
		{"refused at the tip", []heights.Reading{pruned(1000)}, 0},
		{"refused above the tip", []heights.Reading{pruned(400), pruned(1001), pruned(1 << 62)}, 401},
		{"answered below Lowest", []heights.Reading{pruned(400), {Height: 100}}, 100},
		{"answered above Lowest", []heights.Reading{pruned(400), {Height: 500}}, 401},
		{"refused after an answer", []heights.Reading{pruned(400), {Height: 100}, pruned(200)}, 201},
		{"negative height", []heights.Reading{pruned(400), {Height: -1}}, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newFakeNode(990)
			runChain(t, func(t *testing.T, c *followed) {
				for _, r := range tt.learn {
					c.RecordReading(c.known[0], c.Tip().Epoch, r)
				}
				expect.Equal(t, c.known[0].State().Lowest, tt.want, "Lowest")
				c.RecordReading(c.known[0], c.Tip().Epoch+1, pruned(600))
				expect.Equal(t, c.known[0].State().Lowest, tt.want, "Lowest after a reading of another epoch")
			}, n)
		})
	}
}

func TestLowestIsForgottenWithTheEpoch(t *testing.T) {
	n := newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		c.RecordReading(c.known[0], 0, heights.Reading{Outcome: heights.Pruned, Height: 950})
		n.change(func() { n.height = 900 })
		c.blocks(20)
		if got := c.known[0].State().Lowest; c.epochs.Load() != 1 || got != 0 {
			t.Errorf("Lowest = %d after %d rollbacks, want 0 after one\n%s", got, c.epochs.Load(), c.log)
		}
	}, n)
}

func TestEarliestBlockOfStatusIsBoundedByTheTip(t *testing.T) {
	for earliest, want := range map[int64]int64{300: 300, 1 << 62: 1000, -5: 0} {
		n := newFakeNode(990)
		n.earliest = earliest
		runChain(t, func(t *testing.T, c *followed) {
			if got := c.known[0].State().Lowest; got > c.Tip().Height || want < 1000 && got != want {
				t.Errorf("earliest block %d: Lowest = %d, want %d", earliest, got, want)
			}
			c.RecordReading(c.known[0], 0, heights.Reading{Height: 100})
			c.blocks(20)
			if got := c.known[0].State().Lowest; got > 100 {
				t.Errorf("earliest block %d: Lowest = %d after a read at 100", earliest, got)
			}
		}, n)
	}
}

// A block that has just been committed may not be readable yet.
func TestProvingReadIsRetried(t *testing.T) {
	for refusals, accepted := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		n := newFakeNode(990)
		runChain(t, func(t *testing.T, c *followed) {
			left := refusals
			n.change(func() {
				n.height += 500
				n.refuses = func(height int64) bool {
					if height < 1200 {
						return false
					}
					left--
					return left >= 0
				}
			})
			for _, n := range c.nodes {
				n.commit()
			}
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			expect.Equal(t, c.Tip().Height > 1200, accepted, "after %d refusals: accepted", refusals)
		}, n)
	}
}

func TestForkedNodeDoesNotConfirmOldBlocks(t *testing.T) {
	ours, other := newFakeNode(990), newFakeNode(990)
	runChain(t, func(t *testing.T, c *followed) {
		hash := ours.hash
		forked := func(from int64, name string) func(int64) string {
			return func(height int64) string {
				if height >= from {
					return name
				}
				return hash(height)
			}
		}
		other.change(func() { other.hash = forked(other.height, "F") })
		c.blocks(5)
		if got := c.log.Count("another fork"); got != 1 {
			t.Fatalf("log lines about the fork = %d, want 1\n%s", got, c.log)
		}
		// The chain is reset below the fork, but the forked node still has the old blocks.
		ours.change(func() {
			ours.height -= 10
			ours.hash = forked(ours.height-2, "B")
		})
		c.blocks(1)
		if got := c.log.Count("another fork"); got != 1 || c.epochs.Load() != 1 {
			t.Errorf("new epochs = %d, log lines about forks = %d; want 1 and 1\n%s", c.epochs.Load(), got, c.log)
		}
	}, ours, other)
}

func TestFailedSubscriptionIsRetriedAtGrowingIntervals(t *testing.T) {
	n := newFakeNode(990)
	n.polled = true
	runChain(t, func(t *testing.T, c *followed) {
		c.blocks(120)
		n.mu.Lock()
		defer n.mu.Unlock()
		if first := n.subscribed[1].Sub(n.subscribed[0]); first > 250*time.Millisecond {
			t.Errorf("first interval = %v, want at most 250ms", first)
		}
		for i := len(n.subscribed) - 5; i < len(n.subscribed); i++ {
			if got := n.subscribed[i].Sub(n.subscribed[i-1]); got < 5*time.Second || got > 10*time.Second {
				t.Errorf("interval %d = %v, want 5s to 10s", i, got)
			}
		}
	}, n)
}

// A node that stands still, or is far behind, is the only one that responds while the other one restarts.
func TestRestartOfTheOnlyCurrentNodeBeginsNoEpoch(t *testing.T) {
	for name, late := range map[string]*fakeNode{"behind": newFakeNode(960), "stuck": newFakeNode(960)} {
		ours := newFakeNode(990)
		runChain(t, func(t *testing.T, c *followed) {
			if c.blocks(20); name == "stuck" {
				c.nodes = c.nodes[:1]
			}
			c.RecordReading(c.known[0], 0, heights.Reading{Height: c.Tip().Height})
			ours.setDown(true)
			c.blocks(40)
			ours.setDown(false)
			c.blocks(10)
			if got := c.Tip(); c.epochs.Load() > 0 || got.Height != ours.newest() {
				t.Errorf("tip = %d after %d new epochs while the other node is %s, want %d after none\n%s", got.Height, c.epochs.Load(), name, ours.newest(), c.log)
			}
		}, ours, late)
	}
}
