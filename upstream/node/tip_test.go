package node

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheTipNeverGoesDown(t *testing.T) {
	tip := newTip(2 * time.Second)
	for _, height := range []int64{100, 99, 101, 1} {
		tip.hear(height, time.Time{}, true)
	}
	if got := tip.read(); got.Height != 101 || !got.Known {
		t.Errorf("tip %+v, want 101", got)
	}
}

func TestTheTipIsKnownWhileItsSourceSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := newTip(2 * time.Second)
		if tip.read().Known {
			t.Error("known before anything was heard")
		}
		for range 10 { // the chain stands still, the source does not
			tip.hear(100, time.Time{}, true)
			time.Sleep(6 * time.Second)
			if !tip.read().Known {
				t.Fatal("forgotten although the source was polled in time")
			}
		}
		time.Sleep(3 * time.Second)
		if got := tip.read(); got.Known || got.Height != 100 {
			t.Errorf("tip %+v, want 100, no longer known", got)
		}
	})
}

func TestAReplicaRaisesTheTipWithinBounds(t *testing.T) {
	tip := newTip(2 * time.Second)
	if tip.raise(5); tip.read().Height != 0 {
		t.Error("raised from nothing")
	}
	tip.hear(100, time.Now(), true)
	tests := []struct {
		name        string
		raise, want int64
	}{
		{"a little ahead is believed", 101, 101},
		{"behind changes nothing", 100, 101},
		{"too far ahead is ignored", 101 + maxRaise + 1, 101},
		{"as far as allowed is believed", 101 + maxRaise, 101 + maxRaise},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tip.raise(tt.raise)
			if got := tip.read().Height; got != tt.want {
				t.Errorf("height %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTheBlockIntervalIsLearned(t *testing.T) {
	tests := []struct {
		name  string
		gaps  []time.Duration // between blocks
		want  time.Duration
		paced bool
	}{
		{"too few blocks say nothing", []time.Duration{time.Second, time.Second}, 2 * time.Second, true},
		{"the median of some", []time.Duration{3 * time.Second, 5 * time.Second, 3 * time.Second}, 3 * time.Second, true},
		{"a late block does not move it", []time.Duration{time.Second, time.Second, time.Hour, time.Second}, time.Second, true},
		{"a burst does not drop it below the least", make([]time.Duration, 5), minInterval, true},
		{"a chain that hardly moves", []time.Duration{time.Hour, time.Hour, time.Hour}, maxInterval, true},
		{"catching up says nothing", []time.Duration{1, 1, 1, 1}, 2 * time.Second, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tip := newTip(2 * time.Second)
				for i, gap := range append([]time.Duration{0}, tt.gaps...) {
					time.Sleep(gap)
					tip.hear(int64(100+i), time.Time{}, tt.paced)
				}
				if got := tip.read().Interval; got != tt.want {
					t.Errorf("interval %s, want %s", got, tt.want)
				}
			})
		})
	}
	t.Run("blocks that were missed share the time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tip := newTip(2 * time.Second)
			for i := range 4 {
				tip.hear(int64(100+10*i), time.Time{}, true)
				time.Sleep(30 * time.Second)
			}
			if got := tip.read().Interval; got != 3*time.Second {
				t.Errorf("interval %s, want 3s", got)
			}
		})
	})
}

func TestReadingTheTipAllocatesNothing(t *testing.T) {
	tip := newTip(2 * time.Second)
	tip.hear(100, time.Now(), true)
	if n := testing.AllocsPerRun(100, func() { tip.read() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
