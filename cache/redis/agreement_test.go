package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func newStore(t *testing.T) (*Store, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	return sealedStore(t, server, "", nil), server
}

func (s *Store) mustAgree(t *testing.T, epoch int64) upstream.Agreement {
	t.Helper()
	return expect.Value(s.Agreement(t.Context(), "story-1", epoch))(t)
}

func TestReplicasAgreeOnHighestEpoch(t *testing.T) {
	s, _ := newStore(t)
	for _, step := range []struct{ epoch, want int64 }{{0, 0}, {7, 7}, {0, 7}, {8, 8}, {7, 8}} {
		expect.Equal(t, s.mustAgree(t, step.epoch).Epoch, step.want, "epoch of Agreement(%d)", step.epoch)
	}
	if other, err := s.Agreement(t.Context(), "story-2", 0); err != nil || other.Epoch != 0 {
		t.Errorf("epoch of another chain = %d, %v; want 0", other.Epoch, err)
	}
}

func TestEpochChangesOncePerRollback(t *testing.T) {
	s, _ := newStore(t)
	for _, to := range []int64{100, 101} { // two replicas noticed the same rollback
		if got, err := s.NextEpoch(t.Context(), "story-1", 0, to); err != nil || got != 100 {
			t.Errorf("NextEpoch = %d, %v; want 100", got, err)
		}
	}
}

func TestAnchorsEndWithTheirEpoch(t *testing.T) {
	s, server := newStore(t)
	add := func(epoch, height int64, hash string) {
		t.Helper()
		expect.NoError(t, s.AddAnchor(t.Context(), "story-1", epoch, height, hash))
	}
	add(0, 10, "aa")
	add(0, 20, "bb")
	add(0, 15, "cc") // below the highest
	add(5, 30, "dd") // of another epoch
	expect.NoDiff(t, s.mustAgree(t, 0).Anchors, map[int64]string{10: "aa", 20: "bb"}, "anchors")
	for height := int64(21); height < 100; height++ {
		add(0, height, "ee")
	}
	expect.Equal(t, len(s.mustAgree(t, 0).Anchors), maxAnchors, "anchors")
	if server.TTL(s.epochKey("story-1")) <= 0 {
		t.Error("epoch has no expiry")
	}
	if got := s.mustAgree(t, 1).Anchors; len(got) > 0 {
		t.Errorf("new epoch has anchors %v, want none", got)
	}
}

func TestAgreementReturnsAgeOfLastConfirmation(t *testing.T) {
	s, server := newStore(t)
	hash := strings.Repeat("a", maxHash)
	expect.NoError(t, s.AddAnchor(t.Context(), "story-1", 0, 10, hash))
	server.SetTime(time.Now().Add(time.Hour))
	if a := s.mustAgree(t, 0); a.Anchors[10] != hash || a.SinceConfirmed < 59*time.Minute || a.SinceConfirmed > 61*time.Minute {
		t.Errorf("agreement = %+v, want anchor 10: %s, confirmed an hour ago", a, hash)
	}
}

func TestInvalidEpochIsReplaced(t *testing.T) {
	plain, _ := newStore(t)
	key := plain.epochKey("story-1")
	tests := map[string]func(*miniredis.Miniredis){
		"a string":               func(m *miniredis.Miniredis) { _ = m.Set(key, "x") },
		"a list":                 func(m *miniredis.Miniredis) { _, _ = m.Push(key, "x") },
		"an epoch of letters":    func(m *miniredis.Miniredis) { m.HSet(key, "e", "x") },
		"a negative epoch":       func(m *miniredis.Miniredis) { m.HSet(key, "e", "-5") },
		"a fractional epoch":     func(m *miniredis.Miniredis) { m.HSet(key, "e", "0.5") },
		"an epoch in the future": func(m *miniredis.Miniredis) { m.HSet(key, "e", "9007199254740992") },
		"an invalid time":        func(m *miniredis.Miniredis) { m.HSet(key, "t", "x") },
		"invalid anchors": func(m *miniredis.Miniredis) {
			m.HSet(key, "a", "x 1 :y -5:z 99999999999999999999:aa 0:bb 7:")
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			s, server := newStore(t)
			write(server)
			expect.NoDiff(t, s.mustAgree(t, 0), upstream.Agreement{Anchors: map[int64]string{}}, "agreement")
			expect.Equal(t, s.mustAgree(t, 3).Epoch, 3, "epoch")
		})
	}
}
