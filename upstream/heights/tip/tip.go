package tip

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Slack is the number of blocks by which a plausible claim may exceed the height expected from the pace.
const Slack = 10

// A Tip is the newest block that can be read.
type Tip struct {
	Height      int64         // 0 if unknown; falls below a proved height only with a new epoch
	Limit       int64         // highest plausible height; 0 means no limit
	Epoch       int64         // changes when the chain is reset or rolled back; heights of two epochs cannot be compared
	FellTo      int64         // newest block when the fall before this epoch was noticed; 0 if there was none
	Known       bool          // a claim was accepted recently, so Height is current
	CatchingUp  bool          // every source with a recent claim is behind its peers
	Unconfirmed bool          // a source contradicts Height, and the contradiction is not settled yet
	Since       time.Time     // when Height became the tip
	Seen        time.Time     // when a claim was last accepted
	Interval    time.Duration // learned time between two blocks
}

// Allows reports whether the chain may have a height already.
func (t Tip) Allows(height int64) bool { return t.Limit == 0 || height <= t.Limit }

// A Claim is a source's claim about its newest block.
type Claim struct {
	Height     int64
	Time       time.Time // of the block's header; zero if unknown; the tracker ignores it
	CatchingUp bool      // the source is behind its peers
	Proved     bool      // a read at the height was answered
}

type source struct {
	number     int
	accepted   Claim     // the last accepted one
	acceptedAt time.Time // zero if another source of the node has replaced this one
	high       int64     // highest accepted height of this epoch
	distrusted bool
}

// A Tracker determines the tip from the claims of all sources. Read never waits for writers.
type Tracker struct {
	value    atomic.Pointer[Tip]
	rollback time.Duration

	mu               sync.Mutex
	pace             pace
	sources          []source  // without the removed ones
	added            int       // number of all sources, removed ones included
	proved           int64     // highest height of this epoch at which a read was answered
	base             int64     // height expected at baseAt: the last proved or first accepted one, and the blocks since; 0 if there is none
	baseAt           time.Time // when base was proved, accepted or advanced
	unprovedSince    time.Time // when the tip rose above proved; zero if it is not above
	raised           int64     // newest claim of other replicas; 0 if there is none
	raisedFrom       int64     // their oldest claim that the sources have not confirmed
	raisedAt         time.Time // when replicas claimed raisedFrom
	ignorePeersUntil time.Time // set after an unconfirmed claim of a replica
	lowerSince       time.Time // when all usable sources fell below proved; zero if they are not below
	lowerFrom        int64     // the highest claim at that time
	fell             bool      // a usable source below proved was higher before in this epoch, or removedFell
	removedFell      bool      // fell was true when a source was removed, since lowerSince
	contradictions   *int      // number of unsettled ones in this epoch
}

// New returns a tracker without sources. interval is the assumed time between two blocks until it has been learned.
func New(interval, rollback time.Duration) *Tracker {
	t := &Tracker{pace: pace{assumed: interval}, rollback: rollback, contradictions: new(int)}
	t.value.Store(&Tip{Interval: interval})
	return t
}

// Add adds a source and returns its number.
func (t *Tracker) Add() (number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.added++
	t.sources = append(t.sources, source{number: t.added - 1})
	return t.added - 1
}

// Remove removes a source. Its number is not used again, because a read that began before may still distrust it.
func (t *Tracker) Remove(number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removedFell = t.fell // as the source of a node whose configuration changes
	t.sources = slices.DeleteFunc(t.sources, func(s source) bool { return s.number == number })
	t.resolve(time.Now(), false)
}

// source returns a source, or a new one that the tracker does not use if it was removed. The caller must hold mu.
func (t *Tracker) source(number int) *source {
	i := slices.IndexFunc(t.sources, func(s source) bool { return s.number == number })
	if i < 0 {
		return new(source)
	}
	return &t.sources[i]
}

// Read returns the current tip. It takes no lock and does not allocate.
func (t *Tracker) Read() Tip {
	v := *t.value.Load()
	silent := time.Since(v.Seen)
	v.Known = v.Height > 0 && silent <= ClaimLifetime(v.Interval)
	if v.Limit > 0 {
		v.Limit += int64(silent / v.Interval)
	}
	return v
}

// ClaimLifetime returns how long a claim counts as recent. Silent sources are polled after three intervals, so the
// tip stays known while the chain stands still.
func ClaimLifetime(interval time.Duration) time.Duration {
	return max(4*interval, 5*time.Second)
}

// grace returns how long the tip may be unproved before it is doubtful.
func grace(interval time.Duration) time.Duration { return max(interval, time.Second) }

// Plausible reports whether a source's claim of a height needs no proof. Claims of distrusted sources always need one.
func (t *Tracker) Plausible(source int, height int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.source(source).distrusted && t.base > 0 && height <= t.limit(time.Now())
}

// advanceBase adds the blocks made since baseAt at the pace so far, before a claim changes the pace.
func (t *Tracker) advanceBase(now time.Time) {
	if interval := t.pace.interval(); t.base > 0 {
		blocks := int64(now.Sub(t.baseAt) / interval)
		t.base, t.baseAt = t.base+blocks, t.baseAt.Add(time.Duration(blocks)*interval)
	}
}

// limit returns the highest plausible height at a time.
func (t *Tracker) limit(now time.Time) int64 {
	return t.base + int64(now.Sub(t.baseAt)/t.pace.interval()) + Slack
}

// Accept accepts a source's claim. It reports whether the source was distrusted before.
func (t *Tracker) Accept(source int, c Claim) (restored bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, s := time.Now(), t.source(source)
	restored = s.distrusted
	s.accepted, s.acceptedAt, s.distrusted = c, now, false
	s.high = max(s.high, c.Height)
	t.advanceBase(now)
	if !c.CatchingUp {
		t.pace.advance(c.Height, now)
	}
	if t.base <= 0 { // also after a negative height
		t.base, t.baseAt = c.Height, now
	}
	if c.Proved {
		t.prove(c.Height, now)
	}
	t.resolve(now, true)
	return restored
}

// Prove records that a read at a height was answered in epoch. It ignores heights above the tip, which a source
// must claim first.
func (t *Tracker) Prove(epoch, height int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.value.Load(); epoch == v.Epoch && height <= v.Height {
		t.prove(height, time.Now())
		t.publishUnconfirmed()
	}
}

func (t *Tracker) prove(height int64, now time.Time) {
	if height >= t.proved {
		t.proved, t.base, t.baseAt = height, height, now
		t.lowerSince = time.Time{}
	}
	if t.value.Load().Height <= t.proved {
		t.unprovedSince = time.Time{}
	}
}

// Proved returns the highest height of this epoch at which a read was answered, or 0.
func (t *Tracker) Proved() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proved
}

// Falling returns the proved height and when all usable sources fell below it, or zero values if they are not below.
func (t *Tracker) Falling() (height int64, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lowerSince.IsZero() {
		return 0, time.Time{}
	}
	return t.proved, t.lowerSince
}

// Enter changes the number of the current epoch, and keeps its claims.
func (t *Tracker) Enter(epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := *t.value.Load()
	v.Epoch = epoch
	t.value.Store(&v)
}

// resolve updates the tip. accepted reports whether a claim was just accepted. The caller must hold mu.
func (t *Tracker) resolve(now time.Time, accepted bool) {
	v := *t.value.Load()
	before := v.Height
	v.Height = max(t.proved, t.best(now))
	v.Interval = t.pace.interval()
	if t.raised > 0 {
		t.applyRaise(&v, now)
	}
	if v.Height != before {
		v.Since = now
	}
	if accepted {
		v.Seen = now
	}
	v.Limit = 0
	if t.base > 0 {
		v.Limit = max(t.limit(v.Seen), v.Height) // Read adds the blocks since Seen
	}
	v.CatchingUp = t.watchLower(now)
	v.Unconfirmed = t.unconfirmed()
	if v.Height <= t.proved {
		t.unprovedSince = time.Time{}
	} else if t.unprovedSince.IsZero() {
		t.unprovedSince = now
	}
	t.value.Store(&v)
}

// best returns the height of the highest recent claim, or of the highest claim if none is recent. So a lost source does not
// keep the tip at a height that the others do not claim.
func (t *Tracker) best(now time.Time) (height int64) {
	recent := func(s source) bool { return t.isRecent(s, now) }
	anyRecent := slices.ContainsFunc(t.sources, recent)
	for _, s := range t.sources {
		if recent(s) || !anyRecent {
			height = max(height, s.accepted.Height)
		}
	}
	return height
}

// isRecent is false for a distrusted source, which has no accepted claim.
func (t *Tracker) isRecent(s source, now time.Time) bool {
	return s.accepted.Height > 0 && now.Sub(s.acceptedAt) <= ClaimLifetime(t.pace.interval())
}

// watchLower updates lowerSince, lowerFrom and fell. It reports whether all sources with a recent claim are catching up.
func (t *Tracker) watchLower(now time.Time) (catchingUp bool) {
	var usable, lower, behind int
	t.removedFell = t.removedFell && !t.lowerSince.IsZero()
	t.fell = t.removedFell
	for _, s := range t.sources {
		switch {
		case !t.isRecent(s, now):
		case s.accepted.CatchingUp:
			behind++
		default:
			usable++
			if s.accepted.Height < t.proved {
				lower++
				t.fell = t.fell || s.accepted.Height < s.high
			}
		}
	}
	switch {
	case usable == 0 || lower < usable:
		t.lowerSince = time.Time{}
	case t.lowerSince.IsZero():
		t.lowerSince, t.lowerFrom = now, t.best(now)
	}
	return usable == 0 && behind > 0
}

// A pace learns the time between two blocks as the median of the latest samples, because an absent proposer makes
// some blocks late.
type pace struct {
	assumed time.Duration // used until there are three samples
	samples Median
	height  int64
	at      time.Time
}

// Bounds of the learned interval.
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
		return p.assumed
	}
	return min(max(p.samples.Value(), minInterval), maxInterval)
}

// A Median is the median of the latest fifteen durations.
type Median struct {
	Count int // number of all durations so far
	last  [15]time.Duration
}

// Add adds a duration.
func (m *Median) Add(d time.Duration) {
	m.last[m.Count%len(m.last)] = d
	m.Count++
}

// Value returns the median. There must be at least one duration.
func (m *Median) Value() time.Duration {
	sorted := m.last
	known := sorted[:min(m.Count, len(sorted))]
	slices.Sort(known)
	return known[len(known)/2]
}
