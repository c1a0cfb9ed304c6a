package tip

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestSeriesOfUnconfirmedRaisesIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		for height := int64(101); height <= 105; height++ {
			if !tip.Raise(height) {
				t.Fatalf("Raise(%d) = false within the time for confirmation, want true", height)
			}
			time.Sleep(time.Second)
			tip.Accept(0, Claim{Height: 100})
		}
		expect.Equal(t, tip.Read().Height, 100, "tip after claims that no source confirmed")
		expect.Equal(t, tip.Raise(106), false, "Raise after unconfirmed claims")
	})
}

func TestRaisesAheadOfALateSourceGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newAt100(2*time.Second, time.Minute)
		for height := int64(102); height < 120; height++ {
			if !tip.Raise(height) {
				t.Fatalf("Raise(%d) = false with a source that is one block late, want true", height)
			}
			time.Sleep(2 * time.Second)
			tip.Accept(0, Claim{Height: height - 1, Proved: true})
		}
		expect.Equal(t, tip.Read().Height, 119, "tip")
	})
}

func TestContradictionIsSettledAfterEnter(t *testing.T) {
	tip := newAt100(2*time.Second, time.Minute)
	settle := tip.Contradict()
	tip.Enter(7)
	expect.Equal(t, tip.Read().Unconfirmed, true, "Unconfirmed before the contradiction is settled")
	settle()
	expect.Equal(t, tip.Read().Unconfirmed, false, "Unconfirmed after it is settled")
}
