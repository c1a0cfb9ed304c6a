package tip

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

// claimHeight accepts a claim of a height if it is plausible, as a follower does, and reports whether it is.
func (t *Tracker) claimHeight(source int, height int64) bool {
	plausible := t.Plausible(source, height)
	if plausible {
		t.Accept(source, Claim{Height: height})
	}
	return plausible
}

func newTracker(sources int, interval, rollback time.Duration) *Tracker {
	t := New(interval, rollback)
	for range sources {
		t.Add()
	}
	return t
}

// newAt100 returns a tracker of two sources. A claim of 100 by the first source is proved.
func newAt100(interval, rollback time.Duration) *Tracker {
	t := newTracker(2, interval, rollback)
	t.Accept(0, Claim{Height: 100, Proved: true})
	return t
}

func TestTipIsKnownForFourBlocksAndAtLeast5s(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{time.Second: 5 * time.Second, 2 * time.Second: 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			tip := newAt100(interval, time.Minute)
			time.Sleep(want)
			expect.Equal(t, tip.Read().Known, true, "Known %v after a claim with interval %v", want, interval)
			time.Sleep(time.Nanosecond)
			expect.Equal(t, tip.Read().Known, false, "Known 1 ns later with interval %v", interval)
		})
	}
}

func TestPlausibleClaimBecomesTip(t *testing.T) {
	tests := []struct {
		name  string
		after time.Duration
		claim int64
		want  int64
	}{
		{"the next block", 0, 101, 101},
		{"a lower height", 0, 50, 100},
		{"ahead by the slack", 0, 100 + Slack, 100 + Slack},
		{"ahead by more than the slack", 0, 101 + Slack, 100},
		{"a million ahead", time.Hour, 1_000_100, 100},
		{"ahead by the elapsed blocks and the slack", 20 * time.Second, 110 + Slack, 110 + Slack},
		{"ahead by more than the elapsed blocks and the slack", 20 * time.Second, 111 + Slack, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tip := newAt100(2*time.Second, time.Minute)
				time.Sleep(tt.after)
				tip.claimHeight(0, tt.claim)
				expect.Equal(t, tip.Read().Height, tt.want, "tip")
			})
		})
	}
}

func TestRemovedSourceDoesNotKeepTheTip(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	tip.claimHeight(1, 105)
	expect.Equal(t, tip.Read().Height, 105, "tip")
	tip.Remove(1)
	expect.Equal(t, tip.Read().Height, 100, "tip after its source was removed")
}

func TestSeriesOfClaimsDoesNotExceedThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		for height := int64(105); height < 1000; height += 5 {
			tip.claimHeight(0, height)
			tip.Raise(height)
		}
		if got := tip.Read().Height; got > 100+Slack {
			t.Errorf("tip = %d, want at most %d", got, 100+Slack)
		}
	})
}

// While no read is answered, as during an outage of the REST servers, nothing proves the claims.
func TestBlocksStayPlausibleAfterThePaceHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip, height := newAt100(time.Second, time.Minute), int64(100)
		for _, pace := range []time.Duration{time.Second, 1200 * time.Millisecond, 2 * time.Second, 1500 * time.Millisecond} {
			for range 300 {
				time.Sleep(pace)
				if height++; !tip.claimHeight(0, height) {
					t.Fatalf("claim of block %d at a pace of %s is implausible: tip = %+v", height, pace, tip.Read())
				}
			}
		}
	})
}

// Claims of other replicas are compared with the limit while this one receives no claims.
func TestLimitGrowsWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		for _, blocks := range []int64{0, 1, 5, 100} {
			expect.Equal(t, tip.Read().Limit, 100+Slack+blocks, "limit")
			time.Sleep(time.Duration(map[int64]int64{0: 1, 1: 4, 5: 95}[blocks]) * 2 * time.Second)
		}
		time.Sleep(time.Minute)
		tip.claimHeight(0, 101) // accepted but not proved
		expect.Equal(t, tip.Read().Limit, int64(100+Slack+130), "limit after a claim")
	})
}

func TestTipFallsBelowUnprovedHeight(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	tip.claimHeight(0, 105)
	tip.claimHeight(0, 101)
	expect.Equal(t, tip.Read().Height, 101, "tip")
	tip.Prove(0, 101)
	tip.claimHeight(0, 99)
	if got := tip.Read().Height; got != 101 {
		t.Errorf("tip = %d, want the proved height 101", got)
	}
}

func TestDistrustedSourceNeedsProof(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	if first, second := tip.Distrust(0), tip.Distrust(0); !first || second {
		t.Errorf("Distrust = %t, then %t; want true, then false", first, second)
	}
	if tip.claimHeight(0, 101) {
		t.Error("unproved claim of a distrusted source is plausible, want it implausible")
	}
	if !tip.Accept(0, Claim{Height: 101, Proved: true}) || !tip.claimHeight(0, 102) {
		t.Error("source still distrusted after a proved claim")
	}
}

func TestTipIsKnownWhileItsSourceMakesClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newTracker(1, 2*time.Second, time.Minute)
		if tip.Read().Known {
			t.Error("Known = true before the first claim, want false")
		}
		tip.Accept(0, Claim{Height: 100})
		for range 10 { // the chain stands still
			time.Sleep(6 * time.Second)
			if tip.Accept(0, Claim{Height: 100}); !tip.Read().Known {
				t.Fatal("Known = false 6 s after a claim, want true")
			}
		}
		time.Sleep(9 * time.Second)
		if got := tip.Read(); got.Known || got.Height != 100 {
			t.Errorf("tip = %+v, want height 100, not known", got)
		}
	})
}

func TestReplicasClaimIsWithdrawnUnlessConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newTracker(1, 2*time.Second, time.Minute)
		if tip.Raise(5); tip.Read().Height != 0 {
			t.Error("Raise moved an unknown tip")
		}
		tip.Accept(0, Claim{Height: 100, Proved: true})
		if !tip.Raise(103) || tip.Raise(102) || tip.Raise(100+Slack+1) || tip.Read().Height != 103 {
			t.Fatalf("tip = %d, want 103", tip.Read().Height)
		}
		time.Sleep(3 * time.Second)
		seen := tip.Read().Seen
		if tip.Raise(104); tip.Read().Height != 104 || !tip.Read().Seen.Equal(seen) {
			t.Errorf("tip = %d seen at %v, want 104 seen at %v, because no source has claimed it", tip.Read().Height, tip.Read().Seen, seen)
		}
		tip.Accept(0, Claim{Height: 104, Proved: true}) // confirmed
		if !tip.Raise(105) {
			t.Fatal("Raise(105) = false after a confirmed claim, want true")
		}
		time.Sleep(time.Second)
		if tip.Accept(0, Claim{Height: 104}); tip.Read().Height != 105 {
			t.Errorf("tip = %d a second after the claim, want 105", tip.Read().Height)
		}
		time.Sleep(5 * time.Second)
		tip.Accept(0, Claim{Height: 104})
		if got := tip.Read().Height; got != 104 {
			t.Errorf("tip = %d, want 104: no source confirmed 105", got)
		}
		if tip.Raise(105) {
			t.Error("Raise(105) = true after an unconfirmed claim, want false")
		}
	})
}

func TestRolledBackAfterAllSourcesWereLower(t *testing.T) {
	fast := int64(0)
	claim := func(source int, c Claim) func(*Tracker) { return func(t *Tracker) { t.Accept(source, c) } }
	tests := []struct {
		name string
		act  func(*Tracker) // every second
		want bool
	}{
		{"the only source is lower", claim(0, Claim{Height: 50}), true},
		{"the only source is lower and catches up", claim(0, Claim{Height: 50, CatchingUp: true}), false},
		{"the only source is one block lower", claim(0, Claim{Height: 99}), true},
		{"one of two sources is lower", func(t *Tracker) { t.Accept(0, Claim{Height: 50}); t.Accept(1, Claim{Height: 100}) }, false},
		{"both sources are lower", func(t *Tracker) { t.Accept(0, Claim{Height: 50}); t.Accept(1, Claim{Height: 51}) }, true},
		{"reads at the tip are answered", func(t *Tracker) { t.Accept(0, Claim{Height: 50}); t.Prove(0, 100) }, false},
		{"the source grows faster than the pace", func(t *Tracker) { fast += 5; t.Accept(0, Claim{Height: fast}) }, false},
		{"another source replaces it and catches up", func(t *Tracker) {
			t.Accept(0, Claim{Height: 50})
			t.Retire(0)
			t.Accept(1, Claim{Height: 50, CatchingUp: true})
		}, false},
		{"no source makes claims", func(*Tracker) {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tip := newAt100(time.Second, 10*time.Second)
				for range 10 {
					tt.act(tip)
					if tip.RolledBack() {
						t.Fatal("RolledBack = true before the rollback time has passed")
					}
					time.Sleep(time.Second)
				}
				tt.act(tip)
				expect.Equal(t, tip.RolledBack(), tt.want, "RolledBack")
			})
		})
	}
}

func TestNewEpochForgetsProvedHeight(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	tip.Accept(0, Claim{Height: 40})
	tip.Begin(7)
	tip.Prove(0, 100) // a read of the previous epoch
	if got := tip.Read(); got.Height != 40 || got.Epoch != 7 {
		t.Errorf("tip = %+v, want height 40 of epoch 7", got)
	}
	if tip.claimHeight(0, 100) || !tip.claimHeight(0, 41) {
		t.Error("100 is plausible or 41 is not, want plausible heights to start at the new tip")
	}
	tip.Prove(7, 41)
	tip.Begin(7) // the current epoch
	expect.Equal(t, tip.Read().Height, 41, "tip after the epoch began twice")
}

func TestIntervalIsLearned(t *testing.T) {
	tests := []struct {
		name       string
		gaps       []time.Duration // between blocks
		want       time.Duration
		catchingUp bool
	}{
		{"too few blocks", []time.Duration{time.Second, time.Second}, 2 * time.Second, false},
		{"three blocks", []time.Duration{3 * time.Second, 5 * time.Second, 3 * time.Second}, 3 * time.Second, false},
		{"a late block", []time.Duration{time.Second, time.Second, time.Hour, time.Second}, time.Second, false},
		{"a burst", make([]time.Duration, 5), minInterval, false},
		{"a very slow chain", []time.Duration{time.Hour, time.Hour, time.Hour}, maxInterval, false},
		{"catching up", []time.Duration{1, 1, 1, 1}, 2 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tip := newTracker(1, 2*time.Second, time.Minute)
				for i, gap := range append([]time.Duration{0}, tt.gaps...) {
					time.Sleep(gap)
					tip.Accept(0, Claim{Height: int64(100 + i), CatchingUp: tt.catchingUp})
				}
				expect.Equal(t, tip.Read().Interval, tt.want, "interval")
			})
		})
	}
	t.Run("missed blocks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tip := newTracker(1, 2*time.Second, time.Minute)
			for i := range 4 {
				tip.Accept(0, Claim{Height: int64(100 + 10*i)})
				time.Sleep(30 * time.Second)
			}
			expect.Equal(t, tip.Read().Interval, 3*time.Second, "interval")
		})
	})
}

func TestReadDoesNotAllocate(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	expect.Equal(t, testing.AllocsPerRun(100, func() { tip.Read() }), 0, "Read makes allocations")
}

func TestRolledBackAfterLowerSourcesStopCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const before = 1000
		tip := newTracker(2, time.Second, 10*time.Second)
		tip.Accept(0, Claim{Height: before, Proved: true})
		for second := range 31 {
			tip.Accept(0, Claim{Height: int64(20 * min(second, 10))}) // 20 blocks a second, then none
			if got, want := tip.RolledBack(), second > 21; got != want && second != 20 && second != 21 {
				t.Errorf("RolledBack = %t after %d s, want %t", got, second, want)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestLowerClaimOfAnotherSourceKeepsTheTip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		if tip.Accept(1, Claim{Height: 99}); tip.Read().Height != 100 {
			t.Errorf("tip = %d, want 100", tip.Read().Height)
		}
		if tip.Accept(1, Claim{Height: 100}); tip.Read().Height != 100 {
			t.Errorf("tip = %d, want 100", tip.Read().Height)
		}
	})
}

func TestNegativeHeightDoesNotMakeOthersImplausible(t *testing.T) {
	tip := newTracker(2, 2*time.Second, time.Minute)
	tip.Accept(0, Claim{Height: -5})
	tip.Accept(1, Claim{Height: 100})
	expect.Equal(t, tip.Plausible(1, 101), true, "the next block is plausible")
}

func TestRemovedSourcesLeaveNothing(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	removed := tip.Add()
	tip.Accept(removed, Claim{Height: 101})
	tip.Remove(removed)
	expect.Equal(t, tip.Read().Height, 100, "tip without the removed source")
	added := tip.Add()
	tip.Distrust(removed) // by a read that began before
	expect.Equal(t, tip.Distrusts(added), false, "Distrusts of the source added since")
	expect.Equal(t, len(tip.sources), 3, "sources")
}

// The configuration of a node may change while the chain is rolled back.
func TestTipStaysUnconfirmedWhenAnotherSourceReplacesTheOneThatFell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		tip.Accept(0, Claim{Height: 50})
		tip.Accept(tip.Add(), Claim{Height: 50})
		tip.Remove(0)
		expect.Equal(t, tip.Read().Unconfirmed, true, "Unconfirmed after the removal")
		tip.Prove(0, 100)
		expect.Equal(t, tip.Read().Unconfirmed, false, "Unconfirmed after a read at the proved height")
		tip.Accept(2, Claim{Height: 51})
		expect.Equal(t, tip.Read().Unconfirmed, false, "Unconfirmed while the other source is late")
	})
}
