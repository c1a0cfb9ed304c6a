package tip

import "time"

// deafness is how long replicas are not listened to after one of their claims
// was not confirmed.
const deafness = time.Minute

// settle makes the tip of all that is believed. heard says that a source has
// just spoken. Call with mu held.
func (t *Tracker) settle(now time.Time, heard bool) {
	v := *t.value.Load()
	before := v.Height
	best := t.best()
	v.Height = max(t.proved, best.Height)
	v.Interval = t.pace.interval()
	t.confirmRaise(&v, now)
	if v.Height != before {
		v.Time = time.Time{}
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
	v.CatchingUp = t.watchLower(now, v.Interval)
	if v.Height <= t.proved {
		t.unproved = time.Time{}
	} else if t.unproved.IsZero() {
		t.unproved = now
	}
	t.value.Store(&v)
}

// best is the highest claim that is believed.
func (t *Tracker) best() (best Claim) {
	for _, s := range t.sources {
		if c := s.claim; c.Height > best.Height || c.Height == best.Height && best.Time.IsZero() {
			best = c
		}
	}
	return best
}

// confirmRaise lets what replicas say count for as long as sources have time to
// say the same.
func (t *Tracker) confirmRaise(v *Tip, now time.Time) {
	switch {
	case t.raised <= v.Height:
		t.raised = 0
	case now.Sub(t.raisedAt) > 2*grace(v.Interval):
		t.raised, t.deafUntil = 0, now.Add(deafness)
	default:
		v.Height = t.raised
	}
}

// watchLower keeps the time since when all usable sources are below what was
// proved, and says whether all that are heard from catch up.
func (t *Tracker) watchLower(now time.Time, interval time.Duration) (catchingUp bool) {
	var usable, lower, behind int
	for _, s := range t.sources {
		switch {
		case s.aside || s.claim.Height == 0 || now.Sub(s.heard) > HeardFor(interval):
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
		t.lowerSince, t.lowerFrom = now, t.best().Height
	}
	return usable == 0 && behind > 0
}

// SetBack says that the chain has gone back: all usable sources have been lower
// than what was proved, for long enough. One that makes blocks faster than the
// chain does catches up, also where it cannot say so.
func (t *Tracker) SetBack() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(t.lowerSince)
	if t.lowerSince.IsZero() || elapsed < t.rollback {
		return false
	}
	if height := t.best().Height; height-t.lowerFrom > Slack+2*int64(elapsed/t.pace.interval()) {
		t.lowerSince, t.lowerFrom = now, height
		return false
	}
	return true
}

// Begin begins an epoch: what was proved in the one before is proved no longer,
// and the tip is what the sources claim now. It says whether the epoch is new.
func (t *Tracker) Begin(epoch int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := *t.value.Load()
	if v.Epoch == epoch {
		return false
	}
	now := time.Now()
	v.Epoch, v.Time = epoch, time.Time{}
	t.value.Store(&v)
	t.proved, t.raised, t.lowerSince, t.unproved = 0, 0, time.Time{}, time.Time{}
	t.pace.forget()
	t.base, t.baseAt = t.best().Height, now
	t.settle(now, false)
	return true
}
