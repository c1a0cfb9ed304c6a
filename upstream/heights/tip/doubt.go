package tip

import (
	"sync"
	"time"
)

// PutAside makes a source's word count for nothing. It says whether that is new.
func (t *Tracker) PutAside(source int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.sources[source]
	if s.aside {
		return false
	}
	s.aside, s.claim = true, Claim{}
	t.resolve(time.Now(), false)
	return true
}

// Aside says whether a source was put aside.
func (t *Tracker) Aside(source int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sources[source].aside
}

// Retire notes that a source speaks no longer, for another of its node does. What
// it claimed stays, but is no news: it says nothing of where the chain is now.
func (t *Tracker) Retire(source int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.sources[source]
	s.heard, s.at = time.Time{}, time.Time{}
	t.resolve(time.Now(), false)
}

// Doubtful says whether the tip has been a mere claim for too long, and its height.
func (t *Tracker) Doubtful() (height int64, doubtful bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.value.Load()
	return v.Height, !t.unproved.IsZero() && time.Since(t.unproved) >= grace(v.Interval)
}

// Contradict notes that a source contradicts the tip. Which of the two is right is found out until settle is called.
func (t *Tracker) Contradict() (settle func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	epoch := t.value.Load().Epoch
	t.contradictions++
	t.publishDoubt()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.value.Load().Epoch == epoch { // Begin has settled the contradictions of the epoch before
			t.contradictions--
			t.publishDoubt()
		}
	})
}

// doubted reports whether a contradiction is being looked into, or all usable sources are below what was read, of which
// one was higher. A source that is late has not been higher. Call with mu held.
func (t *Tracker) doubted() bool { return t.contradictions > 0 || t.fell && !t.lowerSince.IsZero() }

// publishDoubt puts in the tip whether it is doubted. Call with mu held.
func (t *Tracker) publishDoubt() {
	if v := *t.value.Load(); v.Unconfirmed != t.doubted() {
		v.Unconfirmed = t.doubted()
		t.value.Store(&v)
	}
}

// Claims says whether a source's claim carries the height.
func (t *Tracker) Claims(source int, height int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sources[source].claim.Height >= height
}

// Lowers says whether a source claims less than what was read at, and is believed.
func (t *Tracker) Lowers(source int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	claim := t.sources[source].claim
	return 0 < claim.Height && claim.Height < t.proved && !claim.CatchingUp
}

// Raise lifts the tip to a height that another replica has read at. It says whether the tip moved.
func (t *Tracker) Raise(height int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, now := t.Read(), time.Now()
	if !v.Known || height <= v.Height || height > t.limit(now) || now.Before(t.ignorePeersUntil) {
		return false
	}
	if t.raised <= v.Height {
		t.raisedAt = now // a chain of claims has one time to be confirmed
	}
	t.raised = height
	t.resolve(now, false)
	return true
}

// deafness is how long replicas are not listened to after a claim that was not confirmed.
const deafness = time.Minute

// confirmRaise lets what replicas say count until sources had time to say the same.
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

// SetBack says that the chain has gone back: all usable sources have been lower for long enough.
// Sources whose height grows faster than the chain makes blocks catch up, and do not count.
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

// Begin begins an epoch: nothing is proved. The tip is what those sources claim now that have told
// of lower blocks; until one does, there is none. It says whether the epoch is new.
func (t *Tracker) Begin(epoch int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := *t.value.Load()
	if v.Epoch == epoch {
		return false
	}
	now := time.Now()
	t.contradictions = 0
	for i, s := range t.sources {
		t.sources[i].high = 0
		if !t.heard(s, now) || t.proved > 0 && s.claim.Height >= t.proved {
			t.sources[i].claim = Claim{}
		}
	}
	v.Epoch, v.Time = epoch, time.Time{}
	t.value.Store(&v)
	t.proved, t.raised, t.lowerSince, t.unproved = 0, 0, time.Time{}, time.Time{}
	t.pace.height = 0 // the next one is the first; the interval stays
	t.base, t.baseAt = t.best(now).Height, now
	t.resolve(now, false)
	return true
}
