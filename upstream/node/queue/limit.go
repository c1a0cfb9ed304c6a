package queue

import "time"

// Cost is the cost class of a request.
type Cost int

// The cost classes. Scans and unknown requests have limits of their own within the common one.
const (
	Cheap   Cost = iota // a single item: below a millisecond
	Page                // a list of up to some hundred items: milliseconds
	Scan                // a whole set: tens of milliseconds and more
	Unknown             // unknown cost; counts as a Page
	costs
)

// String returns the metric label of the class.
func (c Cost) String() string { return [...]string{"cheap", "page", "scan", "unknown"}[c] }

// weights are the shares of the limit that requests use while it adapts: a single item counts half a list. A scan counts
// as one list, because more would exceed the smallest limit.
var weights = [costs]float64{Cheap: .5, Page: 1, Scan: 1, Unknown: 1}

// The bounds and the start of an adaptive limit, in requests for lists. Two to four requests keep a small node busy.
// Twice the upper bound made a node with two cores stop producing blocks.
const (
	minLimit   = 2
	firstLimit = 4
	maxLimit   = 32

	MaxRequests = 2 * maxLimit // if all requests are for single items
)

const (
	calmLoad  = minLimit              // load up to which reads take their base duration
	tolerance = 1.5                   // a read is slow if it takes more than this multiple of its base duration, plus slack
	slack     = time.Millisecond      // time that schedulers need
	fall      = .75                   // factor by which the limit falls
	relieved  = .9                    // a fall has helped if durations fall below this fraction
	smoothing = 8                     // a new sample counts 1/smoothing in a mean
	leastBase = 50 * time.Microsecond // minimum base duration
)

// A limit is the maximum number of concurrent requests of an endpoint. It is fixed or adapts to the endpoint's capacity.
// An adaptive limit grows by one for every window of answers that took about as long as under low load. It falls
// by a quarter if more than half of the answers were slow in two consecutive windows. A single slow window may
// only mean that this machine was busy. If reads take as long after a fall as before, something else slows the
// endpoint: the limit stays and the base durations are learned again. The limit also falls at the end of a window in
// which a header was late and the load was high. From there it grows by at most one per block that is in time.
type limit struct {
	adapts  bool
	now     float64
	ceiling float64 // above it the limit grows by one per block
	headers func() (punctual, late int64)

	recent [costs]time.Duration // smoothed duration of reads
	seen   [costs]time.Time     // when recent last changed
	base   [costs]time.Duration // duration under low load: a running median

	took, due      time.Duration // sums for the window: actual and base durations
	before         float64       // took/due of the window that made the limit fall; 0 if it did not fall
	slowBefore     bool          // more than half of the answers of the previous window were slow
	answers, slow  int           // in the window
	busy           int           // number of these answers to reads under higher load
	full           bool          // a request had to wait in the window
	punctual, late int64
	fell           time.Time
}

func newLimit(fixed int, headers func() (punctual, late int64)) limit {
	if fixed > 0 {
		return limit{now: float64(fixed)}
	}
	return limit{adapts: true, now: firstLimit, ceiling: maxLimit, headers: headers}
}

func (l *limit) weight(c Cost) float64 {
	if !l.adapts {
		return 1
	}
	return weights[c]
}

// observe records the answer to a read. calm reports whether the load was low when it began. Reads that began before the
// limit fell do not count for the new limit.
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
	l.answers++
	if float64(l.answers) >= 2*l.now/weights[Cheap] { // a window: twice as many answers as single items fit the limit
		l.adapt(now)
		l.answers, l.slow, l.busy, l.full, l.took, l.due = 0, 0, 0, false, 0, 0
	}
}

// stepTowards returns the next estimate of a median.
func stepTowards(median, sample time.Duration) time.Duration {
	if sample > median {
		return median + median/smoothing/2
	}
	return max(median-median/smoothing/2, leastBase)
}

// adapt ends a window and adjusts the limit.
func (l *limit) adapt(now time.Time) {
	punctual, late := l.headers()
	isPunctual, isLate := punctual > l.punctual, late > l.late
	l.punctual, l.late = punctual, late
	before, slowness := l.before, float64(l.took)/float64(l.due)
	slow, repeated := 2*l.slow > l.answers, l.slowBefore
	l.before, l.slowBefore = 0, slow
	switch {
	case isLate && 2*l.busy > l.answers: // otherwise the load is not the cause
		l.now, l.fell = max(l.now*fall, minLimit), now
		l.ceiling = l.now
	case slow && before > 0 && slowness > relieved*before:
		l.before = slowness
		for c, base := range l.base {
			if base > 0 {
				l.base[c] = stepTowards(base, l.recent[c])
			}
		}
	case slow && !repeated: // wait for a second window
	case slow:
		l.now, l.fell, l.before = max(l.now*fall, minLimit), now, slowness
	case !l.full || 4*l.slow > l.answers: // no request waited, or too many were slow
	case l.now+1 <= l.ceiling:
		l.now++
	case isPunctual:
		l.ceiling = min(l.ceiling+1, maxLimit)
		l.now = min(l.now+1, l.ceiling)
	}
}
