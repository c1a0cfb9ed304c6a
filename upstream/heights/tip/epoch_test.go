package tip

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPlausibilityCountsFromTheFirstClaimThatWasBelieved(t *testing.T) {
	tip := New(1, 2*time.Second, time.Minute)
	if tip.says(0, 100) {
		t.Fatal("the first claim was believed without a reason")
	}
	tip.Accept(0, Claim{Height: 100})
	if !tip.says(0, 100+Slack) || tip.says(0, 101+Slack) {
		t.Errorf("limit %d, want %d", tip.Read().Limit, 100+Slack)
	}
}

func TestWhatAReplicaSaidCountsNoMoreOnceASourceWasHigher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := begun(2*time.Second, time.Minute)
		tip.Raise(103)
		tip.says(0, 104)
		tip.says(0, 101)
		if got := tip.Read().Height; got != 101 {
			t.Errorf("tip %d, want 101: 104 was taken back", got)
		}
	})
}

// Another replica may see first that the chain was set back.
func TestANewEpochForgetsSourcesThatStillTellOfTheOldChain(t *testing.T) {
	tip := begun(2*time.Second, time.Minute)
	tip.Accept(1, Claim{Height: 40})
	tip.Begin(7)
	if got := tip.Read().Height; got != 40 || tip.Claims(0, 1) {
		t.Errorf("tip %d, want 40; the source at 100 counts: %t", got, tip.Claims(0, 1))
	}
}

func TestASourceLowersWhatWasReadUnlessItCatchesUp(t *testing.T) {
	tests := []struct {
		name  string
		claim Claim
		want  bool
	}{
		{"a block lower", Claim{Height: 99}, true},
		{"as high", Claim{Height: 100}, false},
		{"higher", Claim{Height: 101}, false},
		{"lower, and says that it catches up", Claim{Height: 99, CatchingUp: true}, false},
		{"silent", Claim{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tip := begun(2*time.Second, time.Minute)
			tip.Accept(1, tt.claim)
			if got := tip.Lowers(1); got != tt.want {
				t.Errorf("lowers: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestTheTipFallsSinceAllSourcesAreLower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := begun(2*time.Second, time.Minute)
		if height, since := tip.Falling(); height != 0 || !since.IsZero() {
			t.Errorf("falls from %d since %v before any source was lower", height, since)
		}
		tip.says(0, 50)
		began := time.Now()
		time.Sleep(time.Second)
		tip.says(0, 51)
		if height, since := tip.Falling(); height != 100 || !since.Equal(began) {
			t.Errorf("falls from %d since %v, want 100 since %v", height, since, began)
		}
		if tip.Prove(0, 100); tip.Proved() != 100 {
			t.Errorf("proved %d, want 100", tip.Proved())
		}
		if height, _ := tip.Falling(); height != 0 {
			t.Errorf("falls from %d although a read there was answered", height)
		}
	})
}

func TestATipThatWasReadIsNotDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := begun(2*time.Second, time.Minute)
		doubted := func(what string, want bool) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if _, got := tip.Doubtful(); got != want {
				t.Errorf("doubted: %t, want %t: %s", got, want, what)
			}
		}
		tip.says(0, 100)
		doubted("100 was read and is said again", false)
		tip.says(0, 101)
		doubted("101 is a mere claim", true)
		tip.Prove(0, 101)
		doubted("101 was read", false)
	})
}

func TestTheTimeOfAHeaderBelongsToItsHeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip, header := New(1, 2*time.Second, time.Minute), time.Now().Add(-time.Second)
		for _, c := range []struct {
			claim Claim
			want  time.Time
		}{{Claim{Height: 100, Time: header}, header}, {Claim{Height: 100}, header}, {Claim{Height: 101}, time.Time{}}} {
			tip.Accept(0, c.claim)
			if got := tip.Read().Time; !got.Equal(c.want) {
				t.Errorf("time %v at %d, want %v", got, c.claim.Height, c.want)
			}
		}
	})
}

func TestAllSourcesCatchUpOrNoneDoes(t *testing.T) {
	tip := New(2, 2*time.Second, time.Minute)
	tip.Accept(0, Claim{Height: 100, CatchingUp: true})
	if !tip.Read().CatchingUp {
		t.Error("the only source that was heard catches up")
	}
	tip.Accept(1, Claim{Height: 101})
	if tip.Read().CatchingUp {
		t.Error("a source is up to date")
	}
}

func TestWithoutATipNothingIsKnownAndNoHeightIsRefused(t *testing.T) {
	tip := New(1, 2*time.Second, time.Minute)
	tip.PutAside(0)
	if got := tip.Read(); got.Known || got.Limit != 0 {
		t.Errorf("tip %+v of sources that said nothing", got)
	}
	tip = begun(2*time.Second, time.Minute)
	tip.Begin(7) // the only source told of the chain that is gone
	if got := tip.Read(); got.Known || got.Height != 0 || got.Limit != 0 {
		t.Errorf("tip %+v at the begin of an epoch", got)
	}
}

func TestANewEpochKeepsClaimsWhereNothingWasRead(t *testing.T) {
	tip := New(1, 2*time.Second, time.Minute)
	tip.Accept(0, Claim{Height: 40})
	tip.Begin(7)
	if got := tip.Read(); got.Height != 40 || !got.Known {
		t.Errorf("tip %+v, want 40", got)
	}
}

func TestTheTipIsUnconfirmedWhileItIsContradicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := begun(2*time.Second, time.Minute)
		want := func(what string, unconfirmed bool) {
			t.Helper()
			if got := tip.Read().Unconfirmed; got != unconfirmed {
				t.Errorf("%s: unconfirmed %t, want %t", what, got, unconfirmed)
			}
		}
		first, second := tip.Contradict(), tip.Contradict()
		first()
		first()
		want("one of two contradictions is settled", true)
		second()
		want("both are settled", false)
		tip.says(0, 50)
		want("the only source fell", true)
		tip.Prove(0, 100)
		want("the height that it had can be read", false)
		late := tip.Contradict()
		tip.Begin(7)
		want("another epoch has begun", false)
		next := tip.Contradict()
		late()
		want("a contradiction of the epoch before is settled", true)
		next()
		want("that of this epoch is settled", false)
	})
}

// Its header may come after another replica has seen the block.
func TestASourceThatIsLateDoesNotContradictTheTip(t *testing.T) {
	tip := begun(2*time.Second, time.Minute)
	tip.Raise(103)
	tip.Prove(0, 103)
	tip.says(0, 101)
	if got := tip.Read(); got.Height != 103 || got.Unconfirmed {
		t.Errorf("tip %+v, want 103, confirmed", got)
	}
}
