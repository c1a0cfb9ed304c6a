package tip

import (
	"testing"
	"testing/synctest"
	"time"
)

// says has a source claim a height as a follower would: believed if plausible.
func (t *Tracker) says(source int, height int64) bool {
	believed := t.Plausible(source, height)
	if believed {
		t.Accept(source, Claim{Height: height})
	}
	return believed
}

// begun is a tracker of two sources whose first is at 100, proved.
func begun(interval, rollback time.Duration) *Tracker {
	t := New(2, interval, rollback)
	t.Accept(0, Claim{Height: 100, Proved: true})
	return t
}

func TestAClaimBecomesTheTipWhenItIsPlausible(t *testing.T) {
	tests := []struct {
		name  string
		after time.Duration
		claim int64
		want  int64
	}{
		{"the next block", 0, 101, 101},
		{"a lower one changes nothing", 0, 50, 100},
		{"as far ahead as the slack", 0, 100 + Slack, 100 + Slack},
		{"farther", 0, 101 + Slack, 100},
		{"a million ahead", time.Hour, 1_000_100, 100},
		{"what the time since explains", 20 * time.Second, 110 + Slack, 110 + Slack},
		{"more than that", 20 * time.Second, 111 + Slack, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tip := begun(2*time.Second, time.Minute)
				time.Sleep(tt.after)
				tip.says(0, tt.claim)
				if got := tip.Read().Height; got != tt.want {
					t.Errorf("tip %d, want %d", got, tt.want)
				}
			})
		})
	}
}

func TestNoChainOfClaimsOutrunsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := begun(2*time.Second, time.Minute)
		for height := int64(105); height < 1000; height += 5 {
			tip.says(0, height)
			tip.Raise(height)
		}
		if got := tip.Read().Height; got > 100+Slack {
			t.Errorf("tip %d, want %d at most", got, 100+Slack)
		}
	})
}

// What another replica names is held against the limit, while this one hears nothing.
func TestTheLimitGrowsWithTheTimeThoughNothingIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := begun(2*time.Second, time.Minute)
		for _, blocks := range []int64{0, 1, 5, 100} {
			if got, want := tip.Read().Limit, 100+Slack+blocks; got != want {
				t.Errorf("limit %d, want %d", got, want)
			}
			time.Sleep(time.Duration(map[int64]int64{0: 1, 1: 4, 5: 95}[blocks]) * 2 * time.Second)
		}
		time.Sleep(time.Minute)
		tip.says(0, 101) // heard, not read
		if got, want := tip.Read().Limit, int64(100+Slack+130); got != want {
			t.Errorf("limit %d after a claim, want %d", got, want)
		}
	})
}

func TestWhatAnotherSourceSaysTooIsBelieved(t *testing.T) {
	tip := begun(2*time.Second, time.Minute)
	tip.Accept(1, Claim{Height: 100})
	if tip.says(0, 500) {
		t.Error("the first to say so was believed")
	}
	if !tip.says(1, 501) || !tip.says(0, 500) || tip.Read().Height != 501 {
		t.Errorf("tip %d, want 501", tip.Read().Height)
	}
}

func TestAHeightThatWasNeverReadIsTakenBack(t *testing.T) {
	tip := begun(2*time.Second, time.Minute)
	tip.says(0, 105)
	tip.says(0, 101)
	if got := tip.Read().Height; got != 101 {
		t.Errorf("tip %d, want 101", got)
	}
	tip.Prove(0, 101)
	tip.says(0, 99)
	if got := tip.Read().Height; got != 101 {
		t.Errorf("tip %d, want 101, which was read", got)
	}
}

func TestASourceThatIsPutAsideHasToProveWhatItSays(t *testing.T) {
	tip := begun(2*time.Second, time.Minute)
	if !tip.PutAside(0) || tip.PutAside(0) {
		t.Error("it is news once")
	}
	if tip.says(0, 101) {
		t.Error("believed without proof")
	}
	if !tip.Accept(0, Claim{Height: 101, Proved: true}) || !tip.says(0, 102) {
		t.Error("not taken back")
	}
}

func TestTheTipIsKnownWhileItsSourceSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := New(1, 2*time.Second, time.Minute)
		if tip.Read().Known {
			t.Error("known before anything was heard")
		}
		tip.Accept(0, Claim{Height: 100})
		for range 10 { // the chain stands still, the source does not
			time.Sleep(6 * time.Second)
			if tip.Accept(0, Claim{Height: 100}); !tip.Read().Known {
				t.Fatal("forgotten although the source was polled in time")
			}
		}
		time.Sleep(9 * time.Second)
		if got := tip.Read(); got.Known || got.Height != 100 {
			t.Errorf("tip %+v, want 100, no longer known", got)
		}
	})
}

func TestAReplicaIsBelievedForAsLongAsASourceMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := New(1, 2*time.Second, time.Minute)
		if tip.Raise(5); tip.Read().Height != 0 {
			t.Error("raised from nothing")
		}
		tip.Accept(0, Claim{Height: 100, Proved: true})
		if !tip.Raise(103) || tip.Raise(102) || tip.Raise(100+Slack+1) || tip.Read().Height != 103 {
			t.Fatalf("tip %d, want 103", tip.Read().Height)
		}
		time.Sleep(3 * time.Second)
		tip.Accept(0, Claim{Height: 103, Proved: true}) // confirmed
		if !tip.Raise(105) {
			t.Fatal("not believed after it was right")
		}
		time.Sleep(5 * time.Second)
		tip.Accept(0, Claim{Height: 103})
		if got := tip.Read().Height; got != 103 {
			t.Errorf("tip %d, want 103: nobody confirmed more", got)
		}
		if tip.Raise(105) {
			t.Error("believed after it was wrong")
		}
	})
}

func TestAChainThatWasSetBackIsSeen(t *testing.T) {
	fast := int64(0)
	claim := func(source int, c Claim) func(*Tracker) { return func(t *Tracker) { t.Accept(source, c) } }
	tests := []struct {
		name string
		does func(*Tracker) // every second
		want bool
	}{
		{"the only source is lower", claim(0, Claim{Height: 50}), true},
		{"it catches up", claim(0, Claim{Height: 50, CatchingUp: true}), false},
		{"a block behind is lower, too", claim(0, Claim{Height: 99}), true},
		{"another source is not", func(t *Tracker) { t.Accept(0, Claim{Height: 50}); t.Accept(1, Claim{Height: 100}) }, false},
		{"all of them are", func(t *Tracker) { t.Accept(0, Claim{Height: 50}); t.Accept(1, Claim{Height: 51}) }, true},
		{"reads at the tip are answered", func(t *Tracker) { t.Accept(0, Claim{Height: 50}); t.Prove(0, 100) }, false},
		{"it comes on faster than the chain does", func(t *Tracker) { fast += 5; t.Accept(0, Claim{Height: fast}) }, false},
		{"another speaks for it, and says that it catches up", func(t *Tracker) {
			t.Accept(0, Claim{Height: 50})
			t.Retire(0)
			t.Accept(1, Claim{Height: 50, CatchingUp: true})
		}, false},
		{"nobody is heard from", func(*Tracker) {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tip := begun(time.Second, 10*time.Second)
				for range 10 {
					tt.does(tip)
					if tip.SetBack() {
						t.Fatal("seen too early")
					}
					time.Sleep(time.Second)
				}
				tt.does(tip)
				if got := tip.SetBack(); got != tt.want {
					t.Errorf("set back: %t, want %t", got, tt.want)
				}
			})
		})
	}
}

func TestANewEpochForgetsWhatWasProved(t *testing.T) {
	tip := begun(2*time.Second, time.Minute)
	tip.Accept(0, Claim{Height: 40})
	if !tip.Begin(7) || tip.Begin(7) {
		t.Error("an epoch begins once")
	}
	tip.Prove(0, 100) // a read of the epoch before
	if got := tip.Read(); got.Height != 40 || got.Epoch != 7 {
		t.Errorf("tip %+v, want 40 of epoch 7", got)
	}
	if tip.says(0, 100) || !tip.says(0, 41) {
		t.Error("what is plausible does not count from the new tip")
	}
}

func TestTheBlockIntervalIsLearned(t *testing.T) {
	tests := []struct {
		name       string
		gaps       []time.Duration // between blocks
		want       time.Duration
		catchingUp bool
	}{
		{"too few blocks say nothing", []time.Duration{time.Second, time.Second}, 2 * time.Second, false},
		{"the median of some", []time.Duration{3 * time.Second, 5 * time.Second, 3 * time.Second}, 3 * time.Second, false},
		{"a late block does not move it", []time.Duration{time.Second, time.Second, time.Hour, time.Second}, time.Second, false},
		{"a burst does not drop it below the least", make([]time.Duration, 5), minInterval, false},
		{"a chain that hardly moves", []time.Duration{time.Hour, time.Hour, time.Hour}, maxInterval, false},
		{"catching up says nothing", []time.Duration{1, 1, 1, 1}, 2 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tip := New(1, 2*time.Second, time.Minute)
				for i, gap := range append([]time.Duration{0}, tt.gaps...) {
					time.Sleep(gap)
					tip.Accept(0, Claim{Height: int64(100 + i), CatchingUp: tt.catchingUp})
				}
				if got := tip.Read().Interval; got != tt.want {
					t.Errorf("interval %s, want %s", got, tt.want)
				}
			})
		})
	}
	t.Run("blocks that were missed share the time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tip := New(1, 2*time.Second, time.Minute)
			for i := range 4 {
				tip.Accept(0, Claim{Height: int64(100 + 10*i)})
				time.Sleep(30 * time.Second)
			}
			if got := tip.Read().Interval; got != 3*time.Second {
				t.Errorf("interval %s, want 3s", got)
			}
		})
	})
}

func TestReadingTheTipAllocatesNothing(t *testing.T) {
	tip := begun(2*time.Second, time.Minute)
	if n := testing.AllocsPerRun(100, func() { tip.Read() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestARollbackIsSeenOnceLowerSourcesHaveStoppedCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const before = 1000
		tip := New(2, time.Second, 10*time.Second)
		tip.Accept(0, Claim{Height: before, Proved: true})
		for second := range 31 {
			tip.Accept(0, Claim{Height: int64(20 * min(second, 10))}) // 20 blocks a second, then none
			if got, want := tip.SetBack(), second > 21; got != want && second != 20 && second != 21 {
				t.Errorf("SetBack = %t after %d s, want %t", got, second, want)
			}
			time.Sleep(time.Second)
		}
	})
}
