package tip

import (
	"slices"
	"time"
)

// deafness is how long replicas are not listened to after one of their claims
// was not confirmed.
const deafness = time.Minute

// resolve makes the tip of all that is believed. heard says that a source has
// just spoken. Call with mu held.
func (t *Tracker) resolve(now time.Time, heard bool) {
	v := *t.value.Load()
	before := v.Height
	best := t.best(now)
	v.Height = max(t.proved, best.Height)
	v.Interval = t.pace.interval()
	t.confirmRaise(&v, now)
	if v.Height != before {
		v.Time, v.Since = time.Time{}, now
	}
	if best.Height == v.Height && !best.Time.IsZero() {
		v.Time = best.Time
	}
	if heard {
		v.Seen = now
	}
	if v.Limit = 0; t.base > 0 {
		v.Limit = max(t.base+Slack+int64(v.Seen.Sub(t.baseAt)/v.Interval), v.Height)
	}
	v.CatchingUp = t.watchLower(now)
	if v.Height <= t.proved {
		t.unproved = time.Time{}
	} else if t.unproved.IsZero() {
		t.unproved = now
	}
	t.value.Store(&v)
}

// best is the highest claim that is believed: of the sources that were heard from
// lately, or of all where none was. A source that is gone does not keep the tip at
// a height that the others do not claim.
func (t *Tracker) best(now time.Time) (best Claim) {
	heard := func(s source) bool { return t.heard(s, now) }
	some := slices.ContainsFunc(t.sources, heard)
	for _, s := range t.sources {
		if c := s.claim; (heard(s) || !some) && (c.Height > best.Height || c.Height == best.Height && best.Time.IsZero()) {
			best = c
		}
	}
	return best
}

// heard says whether a source was believed lately.
func (t *Tracker) heard(s source, now time.Time) bool {
	return s.claim.Height > 0 && now.Sub(s.heard) <= ClaimLifetime(t.pace.interval())
}

// confirmRaise lets what replicas say count for as long as sources have time to
// say the same.
func (t *Tracker) confirmRaise(v *Tip, now time.Time) {
	switch {
	case t.raised <= v.Height:
		t.raised = 0
	case now.Sub(t.raisedAt) > 2*grace(v.Interval):
		t.raised, t.ignorePeersUntil = 0, now.Add(deafness)
	default:
		v.Height = t.raised
	}
}

// watchLower keeps the time since when all usable sources are below what was
// proved, and says whether all that are heard from catch up.
func (t *Tracker) watchLower(now time.Time) (catchingUp bool) {
	var usable, lower, behind int
	for _, s := range t.sources {
		switch {
		case s.aside || !t.heard(s, now):
		case s.claim.CatchingUp:
			behind++
		default:
			usable++
			if s.claim.Height < t.proved {
				lower++
			}
		}
	}
	switch {
	case usable == 0 || lower < usable:
		t.lowerSince = time.Time{}
	case t.lowerSince.IsZero():
		t.lowerSince, t.lowerFrom = now, t.best(now).Height
	}
	return usable == 0 && behind > 0
}

// SetBack says that the chain has gone back: all usable sources have been lower
// than what was proved, for long enough. Sources whose height grows faster than the
// chain makes blocks catch up, even if they cannot say so, and do not count.
func (t *Tracker) SetBack() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(t.lowerSince)
	if t.lowerSince.IsZero() || elapsed < t.rollback {
		return false
	}
	if height := t.best(now).Height; height-t.lowerFrom > Slack+2*int64(elapsed/t.pace.interval()) {
		t.lowerSince, t.lowerFrom = now, height
		return false
	}
	return true
}

// Enter names the epoch that has been in force so far.
func (t *Tracker) Enter(epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := *t.value.Load()
	v.Epoch = epoch
	t.value.Store(&v)
}

// Begin begins an epoch: what was proved in the one before is proved no longer,
// and what was claimed is of a chain that is gone. The tip is what those sources
// claim now that have told of lower blocks; until one does, there is none. It
// says whether the epoch is new.
func (t *Tracker) Begin(epoch int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := *t.value.Load()
	if v.Epoch == epoch {
		return false
	}
	now := time.Now()
	for i, s := range t.sources {
		if !t.heard(s, now) || t.proved > 0 && s.claim.Height >= t.proved {
			t.sources[i].claim = Claim{}
		}
	}
	v.Epoch, v.Time = epoch, time.Time{}
	t.value.Store(&v)
	t.proved, t.raised, t.lowerSince, t.unproved = 0, 0, time.Time{}, time.Time{}
	t.pace.forget()
	t.base, t.baseAt = t.best(now).Height, now
	t.resolve(now, false)
	return true
}
