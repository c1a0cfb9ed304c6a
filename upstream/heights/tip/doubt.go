package tip

import "time"

// Distrust makes the tracker ignore a source until Accept. It reports whether the source was trusted before.
func (t *Tracker) Distrust(source int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.source(source)
	if s.distrusted {
		return false
	}
	s.distrusted, s.accepted = true, Claim{}
	t.resolve(time.Now(), false)
	return true
}

// Distrusts reports whether a source is distrusted.
func (t *Tracker) Distrusts(source int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.source(source).distrusted
}

// Retire records that another source of the node replaces this one. Its claim remains but counts as outdated.
func (t *Tracker) Retire(source int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.source(source).acceptedAt = time.Time{}
	t.resolve(time.Now(), false)
}

// Doubtful returns the tip's height, and reports whether it has been unproved for too long.
func (t *Tracker) Doubtful() (height int64, doubtful bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.value.Load()
	return v.Height, !t.unprovedSince.IsZero() && time.Since(t.unprovedSince) >= grace(v.Interval)
}

// Contradict records that a source contradicts the tip. The caller calls settle once, when it has found out which is right.
func (t *Tracker) Contradict() (settle func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	unsettled := t.contradictions // Begin replaces it, and so settles all of an epoch
	*unsettled++
	t.publishUnconfirmed()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		*unsettled--
		t.publishUnconfirmed()
	}
}

// unconfirmed reports whether a contradiction is unsettled, or all usable sources are below the proved height and one of
// them has lowered its claim. Late sources are below it, but they have not lowered their claims. The caller must hold mu.
func (t *Tracker) unconfirmed() bool {
	return *t.contradictions > 0 || t.fell && !t.lowerSince.IsZero()
}

// publishUnconfirmed updates Unconfirmed. The caller must hold mu.
func (t *Tracker) publishUnconfirmed() {
	if old, now := t.value.Load(), t.unconfirmed(); old.Unconfirmed != now {
		v := *old
		v.Unconfirmed = now
		t.value.Store(&v)
	}
}

// Claims reports whether a source claims the height or a higher one.
func (t *Tracker) Claims(source int, height int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.source(source).accepted.Height >= height
}

// ClaimsLower reports whether the recent claim of a source is below the proved height, and the source is not catching up.
func (t *Tracker) ClaimsLower(source int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := *t.source(source)
	return t.isRecent(s, time.Now()) && s.accepted.Height < t.proved && !s.accepted.CatchingUp
}

// Raise raises the tip to a height at which another replica has read. A source must confirm the height in time, however many
// higher ones follow. It reports whether the tip moved.
func (t *Tracker) Raise(height int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, now := t.Read(), time.Now()
	if !v.Known || height <= v.Height || height > t.limit(now) || now.Before(t.ignorePeersUntil) {
		return false
	}
	if t.raised == 0 {
		t.raisedFrom, t.raisedAt = height, now
	}
	t.raised = height
	t.resolve(now, false)
	return true
}

// peerPenalty is how long claims of replicas are ignored after an unconfirmed one.
const peerPenalty = time.Minute

// applyRaise raises v to the height that replicas claim. It ignores replicas for a while if no source confirms their claims in
// time.
func (t *Tracker) applyRaise(v *Tip, now time.Time) {
	switch {
	case t.raised <= v.Height:
		t.raised = 0
	case t.raisedFrom <= v.Height:
		t.raisedFrom, t.raisedAt = t.raised, now
		v.Height = t.raised
	case now.Sub(t.raisedAt) > 2*grace(v.Interval):
		t.raised, t.ignorePeersUntil = 0, now.Add(peerPenalty)
	default:
		v.Height = t.raised
	}
}

// lateTime is how long usable sources must be lower if none of them has lowered its claim, in units of the rollback time: they
// may be late, or stand still, while the node of another one restarts.
const lateTime = 6

// RolledBack reports whether all usable sources have been lower for the rollback time. If their heights grow
// faster than the chain's pace, they are catching up and the time starts again.
func (t *Tracker) RolledBack() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, needed := time.Now(), t.rollback
	if !t.fell {
		needed *= lateTime
	}
	elapsed := now.Sub(t.lowerSince)
	if t.lowerSince.IsZero() || elapsed < needed {
		return false
	}
	if height := t.best(now); height-t.lowerFrom > Slack+2*int64(elapsed/t.pace.interval()) {
		t.lowerSince, t.lowerFrom = now, height
		return false
	}
	return true
}

// Begin begins an epoch, in which nothing is proved. It keeps the recent claims below the old proved height, and the
// highest of them becomes the tip. Without one there is no tip.
func (t *Tracker) Begin(epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := *t.value.Load()
	if v.Epoch == epoch {
		return
	}
	now := time.Now()
	t.contradictions = new(int)
	for i, s := range t.sources {
		t.sources[i].high = 0
		if !t.isRecent(s, now) || t.proved > 0 && s.accepted.Height >= t.proved {
			t.sources[i].accepted = Claim{}
		}
	}
	v.Epoch, v.FellTo = epoch, 0
	if !t.lowerSince.IsZero() {
		v.FellTo = t.lowerFrom
	}
	t.value.Store(&v)
	t.proved, t.raised, t.lowerSince, t.unprovedSince = 0, 0, time.Time{}, time.Time{}
	t.pace.height = 0 // keeps the interval
	t.base, t.baseAt = t.best(now), now
	t.resolve(now, false)
}
