package clients

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Fork is a part of a run within which the chain only grew. Each but the first
// begins when the chain was set back.
type Fork struct {
	Began time.Time
	From  int64 // the height that the chain was set back to
	Truth *Truth
	Holds time.Duration // for so long what was cached before it is at hand
}

// A Model is what answers may be, by what the chain was:
//
//   - a key has one content for a height, the node's, or one at all if it is a POST;
//   - on a connection the height of a key falls once at most each time that the
//     chain is set back, and so does the height of all keys together, but for
//     answers that are marked as older ones;
//   - no answer is of a block that there was not when it came, and none of a fork
//     that ended longer than the grace before it was asked for.
type Model struct {
	Forks []Fork // the first begins before the run
	Grace time.Duration
	Lost  func(*Answer) bool // tells which requests may fail; nil: none
	Any   []string           // keys that cannot be read at a height: their answers may say anything
}

// A Verdict is what was found in a history.
type Verdict struct {
	Answers    int
	Failed     map[string]int // requests for keys that were answered before in the epoch, by what came
	Cold       int            // other requests that failed
	Wrong      int            // answers that are not the node's at their height
	Early      int            // answers of a block that was not there yet
	Fell       int            // answers of a lower height than one before of the key on the connection
	Crossed    int            // answers, not marked, of a lower height than that of another key before
	Heightless int            // answers without a height
	Examples   []string       // of what is wrong, a few
}

// Check holds a history against the model. What it finds is of the requests that
// were sent from a moment to another.
func (m *Model) Check(answers []Answer, from, to time.Time) *Verdict {
	v, before := &Verdict{Failed: map[string]int{}}, &Verdict{Failed: map[string]int{}}
	known, first := map[string]cached{}, map[string]*Answer{}
	seen := map[line]lineState{}
	for i := range answers {
		a, into := &answers[i], v
		if a.Sent.Before(from) || a.Sent.After(to) {
			into = before
		}
		epoch, settled := m.epoch(a.Sent)
		switch was := known[a.Key]; {
		case a.OK():
			if settled && was.epoch < epoch {
				known[a.Key] = cached{epoch, a.Came()}
			}
			if first[a.Key] == nil {
				first[a.Key] = a
			}
			m.answer(into, a, first[a.Key], seen)
		case m.lost(a):
		case was.epoch == epoch && was.since.Before(a.Sent):
			into.Failed[fmt.Sprint(a.Status, " ", a.Err)]++
			into.example(a, "failed")
		default:
			into.Cold++
		}
	}
	return v
}

// cached says since when a key has been answered in an epoch.
type cached struct {
	epoch int
	since time.Time
}

// epoch counts the forks that replicas knew of at a time. It is settled once
// nothing is left of the fork before: until then everything cached may be dropped.
func (m *Model) epoch(at time.Time) (n int, settled bool) {
	n = m.begun(at)
	newest := m.Forks[n-1]
	since := at.Sub(newest.Began)
	if n > 1 && since < newest.Holds {
		return n - 1, true
	}
	return n, n == 1 || since > m.Grace
}

func (m *Model) lost(a *Answer) bool { return m.Lost != nil && !a.OK() && m.Lost(a) }

// answer checks one, given the first to its key.
func (m *Model) answer(v *Verdict, a, first *Answer, seen map[line]lineState) {
	v.Answers++
	switch {
	case strings.HasPrefix(a.Key, http.MethodPost):
		if a.Hash != first.Hash {
			v.Wrong++
			v.example(a, "is not what it was")
		}
	case slices.Contains(m.Any, a.Key):
	case a.Height == 0:
		v.Heightless++
		v.example(a, "says no block")
	default:
		m.content(v, a)
		m.order(v, a, seen)
	}
}

// content checks what an answer says: it is sound if it is of the newest fork and of
// a block that was there, or of one that has not been over for long. Forks may agree.
func (m *Model) content(v *Verdict, a *Answer) {
	newest, found := m.begun(a.Came())-1, -1
	for k := newest; k >= 0; k-- {
		if !m.Forks[k].Truth.Is(a.Key, a.Height, a.Hash) {
			continue
		}
		if k == newest && a.Height <= a.After+1 || k < newest && a.Sent.Sub(m.Forks[k+1].Began) <= m.Grace {
			return
		}
		found = max(found, k)
	}
	switch {
	case found < 0:
		v.Wrong++
		v.example(a, "is not the node's")
	case found == newest: // the clock may be a moment behind, but not more
		v.Early++
		v.example(a, "is of a block that was not there")
	default:
		v.Wrong++
		v.example(a, "is of a chain that is gone")
	}
}

// A line is what may not fall: the height of a key on a connection, or of all.
type line struct {
	client, opened int
	key            string // "": all
}

type lineState struct {
	height int64
	falls  int
}

func (m *Model) order(v *Verdict, a *Answer, seen map[line]lineState) {
	own, fell := m.follow(a, line{a.Client, a.Opened, a.Key}, seen)
	other, crossed := m.follow(a, line{a.Client, a.Opened, ""}, seen)
	switch {
	case fell:
		v.Fell++
		v.example(a, fmt.Sprintf("follows %d", own))
	case crossed:
		v.Crossed++
		v.example(a, fmt.Sprintf("follows %d of another key", other))
	}
}

// follow puts an answer into its line, and tells whether it is below the one
// before once too often.
func (m *Model) follow(a *Answer, at line, seen map[line]lineState) (before int64, fell bool) {
	s := seen[at]
	before = s.height
	if a.Height < before && (at.key != "" || !a.marked()) {
		s.falls++
		fell = s.falls >= m.begun(a.Came())
	}
	s.height = a.Height
	seen[at] = s
	return before, fell
}

// marked tells whether the answer says of itself that it may be an older one.
func (a *Answer) marked() bool {
	return strings.Contains(a.Cache, "stale-while-revalidate") || strings.Contains(a.Cache, "stale-if-error") || strings.Contains(a.Cache, "seconds")
}

// begun is how many forks had begun by a time, one at least.
func (m *Model) begun(by time.Time) int {
	n := 1
	for n < len(m.Forks) && !m.Forks[n].Began.After(by) {
		n++
	}
	return n
}

// Fresh tells whether an answer is the node's own at the newest block, or was
// that not more than a number of blocks ago.
func (m *Model) Fresh(a *Answer, blocks int64) bool {
	if !a.OK() || strings.HasPrefix(a.Key, http.MethodPost) || slices.Contains(m.Any, a.Key) {
		return a.OK()
	}
	height, ok := m.Forks[m.begun(a.Sent)-1].Truth.Until(a.Key, a.Hash, a.Tip+1)
	return ok && height >= a.Tip-blocks
}

// FreshAgain is how long after a moment the last answer was asked for that is not
// fresh, of those that were asked for before the end; nil if there is none.
func (m *Model) FreshAgain(answers []Answer, from, end time.Time, blocks int64) (after time.Duration, last *Answer) {
	for i := range answers {
		a := &answers[i]
		if since := a.Sent.Sub(from); since > after && a.Sent.Before(end) && !m.lost(a) && !m.Fresh(a, blocks) {
			after, last = since, a
		}
	}
	return after, last
}

func (v *Verdict) example(a *Answer, what string) {
	if len(v.Examples) < 5 {
		v.Examples = append(v.Examples, fmt.Sprintf("%v %s", a, what))
	}
}

// Failures is how many requests failed for keys that were answered before.
func (v *Verdict) Failures() (n int) {
	for _, times := range v.Failed {
		n += times
	}
	return n
}

// Broken is an error that names every promise that was broken.
func (v *Verdict) Broken() error {
	var broken []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			broken = append(broken, fmt.Errorf(format, args...))
		}
	}
	check(v.Answers > 0, "nothing was answered")
	check(v.Failures() == 0, "%d requests failed for keys that were answered before: %v %q", v.Failures(), v.Failed, v.Examples)
	check(v.Wrong == 0, "%d answers are not the node's at their height: %q", v.Wrong, v.Examples)
	check(v.Early == 0, "%d answers are of blocks that were not there: %q", v.Early, v.Examples)
	check(v.Heightless == 0, "%d answers say no block: %q", v.Heightless, v.Examples)
	check(v.Fell == 0, "heights fell %d times on a connection: %q", v.Fell, v.Examples)
	check(v.Crossed == 0, "heights fell %d times on a connection from one key to another: %q", v.Crossed, v.Examples)
	return errors.Join(broken...)
}
