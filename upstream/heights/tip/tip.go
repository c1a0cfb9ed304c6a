package tip

import (
	"sync"
	"sync/atomic"
	"time"
)

// Slack is how many blocks a claim may be ahead of what the pace explains.
const Slack = 10

// A Tip is the newest block that can be read.
type Tip struct {
	Height     int64         // 0 until one is known; falls below a height that was read at only with a new epoch
	Limit      int64         // heights above it are not believed as of now, whatever names them; 0: all are
	Epoch      int64         // changes when the chain was reset or set back; heights of two epochs have nothing to do with each other
	Known      bool          // a height source was heard from lately, so Height is current
	CatchingUp bool          // every source that is heard from says that it is behind its peers
	Time       time.Time     // of the header; zero where only the height is known
	Since      time.Time     // when Height became the tip
	Seen       time.Time     // when a height source was last heard from
	Interval   time.Duration // learned time between two blocks
}

// A Claim is what a source says of its newest block.
type Claim struct {
	Height     int64
	Time       time.Time // of the block's header; zero: not said
	CatchingUp bool      // the source says that it is behind its peers
	Proved     bool      // a read at the height was answered
}

// A source is what is known of an endpoint or a replica that makes claims.
type source struct {
	claim Claim     // the last that was believed
	said  int64     // the last height it named, believed or not
	at    time.Time // when it did
	heard time.Time // when it was last believed
	aside bool
}

// A Tracker is the tip over all sources. Writers take turns; readers never wait.
type Tracker struct {
	value    atomic.Pointer[Tip]
	rollback time.Duration

	mu               sync.Mutex
	pace             pace
	sources          []source
	proved           int64     // highest height of this epoch that was read at
	base             int64     // plausibility counts from here: the height proved last, or the first that was believed
	baseAt           time.Time // and from now on
	unproved         time.Time // since when the tip is above proved; zero: it is not
	raised           int64     // what another replica has read at
	raisedAt         time.Time
	ignorePeersUntil time.Time // replicas are not listened to, for what they said was not confirmed
	lowerSince       time.Time // all usable sources are below proved; zero: they are not
	lowerFrom        int64     // the highest of them then
}

// New makes a tracker of so many sources. The interval is the time between two
// blocks until it has been learned.
func New(sources int, interval, rollback time.Duration) *Tracker {
	t := &Tracker{pace: pace{usual: interval}, rollback: rollback, sources: make([]source, sources)}
	t.value.Store(&Tip{Interval: interval})
	return t
}

// Read is the tip as of now. It takes no lock and does not allocate.
func (t *Tracker) Read() Tip {
	v := *t.value.Load()
	silent := time.Since(v.Seen)
	v.Known = v.Height > 0 && silent <= ClaimLifetime(v.Interval)
	if v.Limit > 0 {
		v.Limit += int64(silent / v.Interval)
	}
	return v
}

// ClaimLifetime is how long a source's word is good for. It is asked after three
// intervals of silence, so a chain that stands still stays known.
func ClaimLifetime(interval time.Duration) time.Duration {
	return max(4*interval, 5*time.Second)
}

// grace is how long the tip may be a mere claim before it is doubted.
func grace(interval time.Duration) time.Duration { return max(interval, time.Second) }

// Plausible says whether a source's claim of a height is to be believed without
// proof. A source that was put aside has to prove what it says.
func (t *Tracker) Plausible(source int, height int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, s := time.Now(), &t.sources[source]
	s.said, s.at = height, now
	return !s.aside && t.base > 0 && (height <= t.limit(now) || t.confirmed(source, height, now))
}

// limit is the highest height that the pace explains.
func (t *Tracker) limit(now time.Time) int64 {
	return t.base + int64(now.Sub(t.baseAt)/t.pace.interval()) + Slack
}

// confirmed says whether another source claims about the same.
func (t *Tracker) confirmed(source int, height int64, now time.Time) bool {
	for i, s := range t.sources {
		if i != source && s.said > 0 && now.Sub(s.at) <= ClaimLifetime(t.pace.interval()) && max(height-s.said, s.said-height) <= Slack {
			return true
		}
	}
	return false
}

// Accept takes a source's claim as believed. It says whether the source had been
// put aside, which is over.
func (t *Tracker) Accept(source int, c Claim) (back bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, s := time.Now(), &t.sources[source]
	back = s.aside
	if c.Time.IsZero() && s.claim.Height == c.Height {
		c.Time = s.claim.Time
	}
	*s = newSource(c, now)
	if !c.CatchingUp {
		t.pace.advance(c.Height, now)
	}
	if t.base == 0 {
		t.base, t.baseAt = c.Height, now
	}
	if c.Proved {
		t.prove(c.Height, now)
	}
	t.resolve(now, true)
	return back
}

func newSource(c Claim, now time.Time) source {
	return source{claim: c, said: c.Height, at: now, heard: now}
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

// Prove notes that a read at a height was answered while the epoch was in
// force. What is above the tip is for a source to claim first.
func (t *Tracker) Prove(epoch, height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.value.Load(); epoch == v.Epoch && height <= v.Height {
		t.prove(height, time.Now())
	}
}

func (t *Tracker) prove(height int64, now time.Time) {
	if height >= t.proved {
		t.proved, t.base, t.baseAt = height, height, now
		t.lowerSince = time.Time{}
	}
	if t.value.Load().Height <= t.proved {
		t.unproved = time.Time{}
	}
}

// Doubtful says whether the tip has been a mere claim for too long, and which
// height it is.
func (t *Tracker) Doubtful() (height int64, doubtful bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.value.Load()
	return v.Height, !t.unproved.IsZero() && time.Since(t.unproved) >= grace(v.Interval)
}

// Proved is the highest height of this epoch that was read at, 0 for none.
func (t *Tracker) Proved() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proved
}

// Falling is the highest height that was read at while all usable sources have been
// lower, and since when they are; 0 while they are not.
func (t *Tracker) Falling() (height int64, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lowerSince.IsZero() {
		return 0, time.Time{}
	}
	return t.proved, t.lowerSince
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

// Raise lifts the tip to a height that another replica says it has read at. It
// says whether the tip moved.
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
