package queue

import "time"

// Cost is how heavy a request is for an endpoint.
type Cost int

// The cost classes. Scans and unknown requests have a limit of their own inside the common one.
const (
	Cheap   Cost = iota // one item: below a millisecond
	Page                // a list of up to some hundred items: milliseconds
	Scan                // a whole set: tens of milliseconds and more
	Unknown             // of unknown cost. It counts as a Page
	costs
)

// String is the class as a metric label.
func (c Cost) String() string { return [...]string{"cheap", "page", "scan", "unknown"}[c.known()] }

func (c Cost) known() Cost { return min(max(c, Cheap), Unknown) }

// weights are what requests count for while the limit adapts: one item is half a list.
// Without a weight of its own a scan would be too heavy for the least limit.
var weights = [costs]float64{Cheap: .5, Page: 1, Scan: 1, Unknown: 1}

// The bounds of a limit that adapts, in requests for lists. Two to four keep a small node busy.
// Twice the highest bound stopped the blocks of a node of two cores.
const (
	Least = 2
	First = 4
	Most  = 32

	MostRequests = 2 * Most // if all are for one item
)

const (
	calm      = Least                 // with no more under way, reads take what they take
	tolerance = 1.5                   // times that a read may take
	slack     = time.Millisecond      // and this much more, which schedulers take
	fall      = .75                   // what is left of a limit under which something got worse
	relieved  = .9                    // what is left of the time that reads take, at most, where a fall was of use
	smoothing = 8                     // a new sample is so many'th part of a mean
	leastBase = 50 * time.Microsecond // that a read takes
)

// Headers count the block headers of an endpoint: headers that came as close behind their
// own time as usual, and headers that came later or are overdue. Neither count falls.
type Headers func() (punctual, late int64)

// A limit is how much an endpoint is asked at a time: so many requests, or as much as it bears. It
// grows by one for every window of answers that took no longer than they do while little is asked,
// and falls by a quarter where more than half of them did in two windows in a row: one may be slow
// because this machine was busy. Where reads take as long after a fall as before it, something else
// slows the endpoint: the limit stays, and what reads take is learned anew. A header that is late
// while the endpoint is busy has it fall as well, once; from there on it grows by one a block, if
// that block is in time.
type limit struct {
	adapts  bool
	now     float64
	ceiling float64 // above which it grows by the block
	headers Headers

	recent [costs]time.Duration // that reads took, smoothed
	seen   [costs]time.Time     // when recent changed last
	base   [costs]time.Duration // that they take while little is asked: a running median

	took, due      time.Duration // of the answers of the window: in all, and if each had taken what reads take
	before         float64       // times that reads took in the window that had the limit fall, 0 for none
	slowBefore     bool          // in the window before, more than half took longer than they do
	answers, slow  int           // of the window
	busy           int           // of these, of reads that were not calm
	full           bool          // in the window a request had to wait
	punctual, late int64
	fell           time.Time
}

func newLimit(fixed int, headers Headers) limit {
	if fixed > 0 {
		return limit{now: float64(fixed)}
	}
	l := limit{adapts: true, now: First, ceiling: Most, headers: headers}
	if headers == nil {
		l.headers = func() (punctual, late int64) { return 0, 0 }
	}
	return l
}

func (l *limit) weight(c Cost) float64 {
	if !l.adapts {
		return 1
	}
	return weights[c]
}

// observe takes in the answer to a read that began then; calm tells whether little was
// asked. A read that began before the limit fell says nothing of what it is since.
func (l *limit) observe(c Cost, began, now time.Time, calm bool) {
	took := now.Sub(began)
	if l.base[c] == 0 {
		l.base[c] = max(took, leastBase)
	}
	if now.Sub(l.seen[c]) > remembered {
		l.recent[c] = took
	}
	l.recent[c] += (took - l.recent[c]) / smoothing
	l.seen[c] = now
	if calm {
		l.base[c] = stepTowards(l.base[c], took)
	}
	if !l.adapts || began.Before(l.fell) {
		return
	}
	if !calm {
		l.busy++
	}
	if took > time.Duration(tolerance*float64(l.base[c]))+slack {
		l.slow++
	}
	l.took, l.due = l.took+took, l.due+l.base[c]
	if l.answers++; float64(l.answers) >= 2*l.now/weights[Cheap] {
		l.adapt(now)
		l.answers, l.slow, l.busy, l.full, l.took, l.due = 0, 0, 0, false, 0, 0
	}
}

// stepTowards is the next estimate of a median.
func stepTowards(median, sample time.Duration) time.Duration {
	if sample > median {
		return median + median/smoothing/2
	}
	return max(median-median/smoothing/2, leastBase)
}

// adapt ends a window.
func (l *limit) adapt(now time.Time) {
	punctual, late := l.headers()
	isPunctual, isLate := punctual > l.punctual, late > l.late
	l.punctual, l.late = punctual, late
	before, slowness := l.before, float64(l.took)/float64(l.due)
	slow, again := 2*l.slow > l.answers, l.slowBefore
	l.before, l.slowBefore = 0, slow
	switch {
	case isLate && 2*l.busy > l.answers: // else it is not for what is asked
		l.now, l.fell = max(l.now*fall, Least), now
		l.ceiling = l.now
	case slow && before > 0 && slowness > relieved*before:
		l.before = slowness
		for c, base := range l.base {
			l.base[c] = stepTowards(base, l.recent[c])
		}
	case slow && !again:
	case slow:
		l.now, l.fell, l.before = max(l.now*fall, Least), now, slowness
	case !l.full || 4*l.slow > l.answers:
	case l.now+1 <= l.ceiling:
		l.now++
	case isPunctual:
		l.ceiling = min(l.ceiling+1, Most)
		l.now = min(l.now+1, l.ceiling)
	}
}
