package tip

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestPlausibleHeightsStartAtFirstAcceptedClaim(t *testing.T) {
	tip := newTracker(1, 2*time.Second, time.Minute)
	if tip.claimHeight(0, 100) {
		t.Fatal("first claim is plausible, want it implausible")
	}
	tip.Accept(0, Claim{Height: 100})
	if !tip.claimHeight(0, 100+Slack) || tip.claimHeight(0, 101+Slack) {
		t.Errorf("limit = %d, want %d", tip.Read().Limit, 100+Slack)
	}
}

func TestReplicasClaimIsForgottenAfterHigherClaimOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		tip.Raise(103)
		tip.claimHeight(0, 104)
		tip.claimHeight(0, 101)
		expect.Equal(t, tip.Read().Height, 101, "tip")
	})
}

// Another replica may notice a rollback first.
func TestNewEpochForgetsClaimsOfTheOldChain(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	tip.Accept(1, Claim{Height: 40})
	tip.Begin(7)
	if got := tip.Read().Height; got != 40 || tip.Claims(0, 1) {
		t.Errorf("tip = %d, claim of the source at 100 kept = %t; want 40, false", got, tip.Claims(0, 1))
	}
}

func TestEpochKnowsToWhichBlockTheChainFell(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	for _, height := range []int64{40, 41} {
		tip.Accept(0, Claim{Height: height})
	}
	tip.Begin(7)
	expect.Equal(t, tip.Read().FellTo, 40, "block after the fall")
	tip.Begin(8)
	expect.Equal(t, tip.Read().FellTo, 0, "block after an epoch without a fall")
}

func TestClaimsLower(t *testing.T) {
	tests := []struct {
		name  string
		claim Claim
		want  bool
	}{
		{"a block lower", Claim{Height: 99}, true},
		{"as high", Claim{Height: 100}, false},
		{"higher", Claim{Height: 101}, false},
		{"lower, catching up", Claim{Height: 99, CatchingUp: true}, false},
		{"no claim", Claim{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tip := newAt100(2*time.Second, time.Minute)
			tip.Accept(1, tt.claim)
			expect.Equal(t, tip.ClaimsLower(1), tt.want, "ClaimsLower")
			tip.Retire(1)
			expect.Equal(t, tip.ClaimsLower(1), false, "ClaimsLower after the claim is outdated")
		})
	}
}

func TestFallingWhileAllSourcesAreLower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		if height, since := tip.Falling(); height != 0 || !since.IsZero() {
			t.Errorf("Falling = %d, %v before any source was lower; want zero values", height, since)
		}
		tip.claimHeight(0, 50)
		began := time.Now()
		time.Sleep(time.Second)
		tip.claimHeight(0, 51)
		if height, since := tip.Falling(); height != 100 || !since.Equal(began) {
			t.Errorf("Falling = %d, %v; want 100, %v", height, since, began)
		}
		if tip.Prove(0, 100); tip.Proved() != 100 {
			t.Errorf("Proved = %d, want 100", tip.Proved())
		}
		if height, _ := tip.Falling(); height != 0 {
			t.Errorf("Falling = %d after an answered read, want 0", height)
		}
	})
}

func TestUnprovedTipIsDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		wantDoubtful := func(name string, want bool) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if _, got := tip.Doubtful(); got != want {
				t.Errorf("%s: Doubtful = %t, want %t", name, got, want)
			}
		}
		tip.claimHeight(0, 100)
		wantDoubtful("proved height claimed again", false)
		tip.claimHeight(0, 101)
		wantDoubtful("unproved height", true)
		tip.Prove(0, 101)
		wantDoubtful("height proved", false)
	})
}

func TestCatchingUpIfAllSourcesCatchUp(t *testing.T) {
	tip := newTracker(2, 2*time.Second, time.Minute)
	tip.Accept(0, Claim{Height: 100, CatchingUp: true})
	if !tip.Read().CatchingUp {
		t.Error("CatchingUp = false while the only source catches up, want true")
	}
	tip.Accept(1, Claim{Height: 101})
	if tip.Read().CatchingUp {
		t.Error("CatchingUp = true while a source is up to date, want false")
	}
}

func TestNoLimitWithoutTip(t *testing.T) {
	tip := newTracker(1, 2*time.Second, time.Minute)
	tip.Distrust(0)
	if got := tip.Read(); got.Known || got.Limit != 0 {
		t.Errorf("tip = %+v without claims, want unknown without limit", got)
	}
	tip = newAt100(2*time.Second, time.Minute)
	tip.Begin(7) // the only source has claimed a block of the old chain
	if got := tip.Read(); got.Known || got.Height != 0 || got.Limit != 0 {
		t.Errorf("tip = %+v after Begin, want unknown without limit", got)
	}
}

func TestNewEpochKeepsClaimsIfNothingWasProved(t *testing.T) {
	tip := newTracker(1, 2*time.Second, time.Minute)
	tip.Accept(0, Claim{Height: 40})
	tip.Begin(7)
	if got := tip.Read(); got.Height != 40 || !got.Known {
		t.Errorf("tip = %+v, want known height 40", got)
	}
}

func TestTipIsUnconfirmedWhileContradicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		want := func(name string, unconfirmed bool) {
			t.Helper()
			expect.Equal(t, tip.Read().Unconfirmed, unconfirmed, "%s: Unconfirmed", name)
		}
		first, second := tip.Contradict(), tip.Contradict()
		first()
		want("one of two contradictions is settled", true)
		second()
		want("both contradictions are settled", false)
		tip.claimHeight(0, 50)
		want("the only source fell", true)
		tip.Prove(0, 100)
		want("a read at its former height was answered", false)
		tip.Raise(101)
		tip.Prove(0, 101)
		tip.claimHeight(0, 100)
		want("the source that fell is only late", false)
		late := tip.Contradict()
		tip.Begin(7)
		want("a new epoch has begun", false)
		next := tip.Contradict()
		late()
		want("a contradiction of the previous epoch is settled", true)
		next()
		want("the contradiction of this epoch is settled", false)
	})
}

// A header may arrive after another replica has seen the block.
func TestLateSourceDoesNotContradictTheTip(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	tip.Raise(103)
	tip.Prove(0, 103)
	tip.claimHeight(0, 101)
	if got := tip.Read(); got.Height != 103 || got.Unconfirmed {
		t.Errorf("tip = %+v, want height 103, confirmed", got)
	}
}
