package tip

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Slack is how many blocks a claim may be ahead of what the pace explains.
const Slack = 10

// A Tip is the newest block that can be read.
type Tip struct {
	Height      int64         // 0 until one is known; falls below a height that was read at only with a new epoch
	Limit       int64         // heights above it are not believed as of now, whatever names them; 0: all are
	Epoch       int64         // changes when the chain is reset or rolled back; heights of two epochs cannot be compared
	Known       bool          // a height source was heard from lately, so Height is current
	CatchingUp  bool          // every source that is heard from says that it is behind its peers
	Unconfirmed bool          // a source contradicts Height, and it has not been found out yet which is right
	Time        time.Time     // of the header; zero where only the height is known
	Since       time.Time     // when Height became the tip
	Seen        time.Time     // when a height source was last heard from
	Interval    time.Duration // learned time between two blocks
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
	high  int64     // the highest that was believed in this epoch
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
	fell             bool      // one of them was higher before
	contradictions   int       // that are being looked into
}

// New makes a tracker of so many sources. The interval is the time between two
// blocks until it has been learned.
func New(sources int, interval, rollback time.Duration) *Tracker {
	t := &Tracker{pace: pace{usual: interval}, rollback: rollback, sources: make([]source, sources)}
	t.value.Store(&Tip{Interval: interval})
	return t
}

// Add adds a source, and returns its number.
func (t *Tracker) Add() (number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources = append(t.sources, source{})
	return len(t.sources) - 1
}

// Remove removes what a source has claimed. The caller no longer uses its number.
func (t *Tracker) Remove(number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources[number] = source{}
	t.resolve(time.Now(), false)
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

// Accept takes a source's claim as believed. It says whether the source had been put aside.
func (t *Tracker) Accept(source int, c Claim) (back bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, s := time.Now(), &t.sources[source]
	back = s.aside
	if c.Time.IsZero() && s.claim.Height == c.Height {
		c.Time = s.claim.Time
	}
	s.claim, s.said, s.at, s.heard, s.aside = c, c.Height, now, now, false
	s.high = max(s.high, c.Height)
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

// Prove notes that a read at a height was answered while the epoch was in
// force. What is above the tip is for a source to claim first.
func (t *Tracker) Prove(epoch, height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.value.Load(); epoch == v.Epoch && height <= v.Height {
		t.prove(height, time.Now())
		t.publishDoubt()
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

// Enter names the epoch that has been in force so far.
func (t *Tracker) Enter(epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := *t.value.Load()
	v.Epoch = epoch
	t.value.Store(&v)
}

// resolve makes the tip of all that is believed. heard: by a source just now. Call with mu held.
func (t *Tracker) resolve(now time.Time, heard bool) {
	v := *t.value.Load()
	before := v.Height
	best := t.best(now)
	v.Height = max(t.proved, best.Height)
	v.Interval = t.pace.interval()
	if t.raised > 0 {
		t.confirmRaise(&v, now)
	}
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
	v.Unconfirmed = t.doubted()
	if v.Height <= t.proved {
		t.unproved = time.Time{}
	} else if t.unproved.IsZero() {
		t.unproved = now
	}
	t.value.Store(&v)
}

// best is the highest claim of the sources that were heard from lately, or of all where none was. A
// source that is gone does not keep the tip at a height that the others do not claim.
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

// watchLower keeps the time since when all usable sources are below what was
// proved, and says whether all that are heard from catch up.
func (t *Tracker) watchLower(now time.Time) (catchingUp bool) {
	var usable, lower, behind int
	t.fell = false
	for _, s := range t.sources {
		switch {
		case s.aside || !t.heard(s, now):
		case s.claim.CatchingUp:
			behind++
		default:
			usable++
			if s.claim.Height < t.proved {
				lower++
				t.fell = t.fell || s.claim.Height < s.high
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

// A pace learns the time between two blocks as the median of the last samples:
// an absent proposer makes some blocks late, and must not move it.
type pace struct {
	usual   time.Duration // until there are three samples
	samples Median
	height  int64
	at      time.Time
}

// The learned interval stays within these.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = 30 * time.Second
)

func (p *pace) advance(height int64, at time.Time) {
	if height <= p.height {
		return
	}
	if p.height > 0 {
		p.samples.Add(at.Sub(p.at) / time.Duration(height-p.height))
	}
	p.height, p.at = height, at
}

func (p *pace) interval() time.Duration {
	if p.samples.Count < 3 {
		return p.usual
	}
	return min(max(p.samples.Value(), minInterval), maxInterval)
}

// A Median is that of the last fifteen durations.
type Median struct {
	Count int // of all so far
	last  [15]time.Duration
}

// Add takes in one more.
func (m *Median) Add(d time.Duration) {
	m.last[m.Count%len(m.last)] = d
	m.Count++
}

// Value is the median as of now. There has to be a duration.
func (m *Median) Value() time.Duration {
	sorted := m.last
	known := sorted[:min(m.Count, len(sorted))]
	slices.Sort(known)
	return known[len(known)/2]
}
