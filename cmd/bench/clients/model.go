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
// begins when the chain was rolled back.
type Fork struct {
	Began time.Time
	From  int64 // the height that the chain was rolled back to
	Truth *Truth
	Holds time.Duration // for so long what was cached before it is at hand
}

// A Model is what answers may be, by what the chain was:
//
//   - a key has one content for a height, the node's, or one at all if it is a POST;
//   - on a connection the height of a key falls once at most each time that the
//     chain is rolled back, and so does the height of all keys together, except for
//     answers that are marked as older ones;
//   - in a session it falls for these, and for answers with which it begins anew
//     once the chain was rolled back;
//   - no answer is of a block that there was not when it came, and none of a fork
//     that ended longer than the grace before it was asked for.
type Model struct {
	Forks []Fork // the first begins before the run
	Grace time.Duration
	Lost  func(*Answer) bool // tells which requests may fail; nil: none
	Any   []string           // keys that cannot be read at a height: their answers may say anything
}

// A Finding is something that an answer can be found to be.
type Finding string

// What is found. All but cold failures break a promise.
const (
	Failed     Finding = "failed, were cached" // requests for keys that were answered before in the epoch
	Cold       Finding = "failed, cold"        // other requests that failed
	Wrong      Finding = "wrong content"       // answers that are not the node's at their height
	Early      Finding = "before its block"    // answers of a block that was not there yet
	Fell       Finding = "height fell"         // answers of a lower height than one before of the key on the connection
	Crossed    Finding = "fell between keys"   // answers, not marked, of a lower height than that of another key before
	Heightless Finding = "without height"
)

// Findings are all there are.
var Findings = []Finding{Failed, Cold, Wrong, Early, Fell, Crossed, Heightless}

// A Verdict is what was found in a history.
type Verdict struct {
	Answers  int
	Found    map[Finding]int
	Examples []string // of what is wrong, a few
}

// add counts what was found of an answer.
func (v *Verdict) add(f Finding, a *Answer, format string, args ...any) {
	if v.Found[f]++; len(v.Examples) < 5 && f != Cold {
		v.Examples = append(v.Examples, fmt.Sprintf("%v %s", a, fmt.Sprintf(format, args...)))
	}
}

// Broken is an error that names every promise that was broken.
func (v *Verdict) Broken() error {
	if v.Answers == 0 {
		return errors.New("nothing was answered")
	}
	var broken []error
	for _, f := range Findings {
		if n := v.Found[f]; n > 0 && f != Cold {
			broken = append(broken, fmt.Errorf("%d of %d answers: %s: %q", n, v.Answers, f, v.Examples))
		}
	}
	return errors.Join(broken...)
}

// Check holds a history against the model. What it finds is of the requests that
// were sent from a moment to another.
func (m *Model) Check(answers []Answer, from, to time.Time) *Verdict {
	v, before := &Verdict{Found: map[Finding]int{}}, &Verdict{Found: map[Finding]int{}}
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
			into.add(Failed, a, "failed")
		default:
			into.add(Cold, a, "")
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

// lost reports whether a request may fail. A block that is waited for does not come, or is
// another one, where the chain was rolled back meanwhile, or not longer than the grace before.
func (m *Model) lost(a *Answer) bool {
	n := m.begun(a.Came())
	setBack := n > 1 && a.Sent.Sub(m.Forks[n-1].Began) <= m.Grace
	gone := a.Least > 0 && (a.Status == http.StatusConflict || a.Status == http.StatusGatewayTimeout)
	return gone && setBack || m.Lost != nil && !a.OK() && m.Lost(a)
}

// answer checks one, given the first to its key.
func (m *Model) answer(v *Verdict, a, first *Answer, seen map[line]lineState) {
	v.Answers++
	switch {
	case strings.HasPrefix(a.Key, http.MethodPost):
		if a.Hash != first.Hash {
			v.add(Wrong, a, "is not what it was")
		}
	case slices.Contains(m.Any, a.Key):
	case a.Height == 0:
		v.add(Heightless, a, "says no block")
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
		v.add(Wrong, a, "is not the node's")
	case found == newest: // the clock may be a moment behind, but not more
		v.add(Early, a, "is of a block that was not there")
	default:
		v.add(Wrong, a, "is of a chain that is gone")
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
	own, fell := int64(0), false
	if a.Opened > 0 {
		own, fell = m.follow(a, line{a.Client, a.Opened, a.Key}, seen)
	}
	other, crossed := m.follow(a, line{a.Client, a.Opened, ""}, seen)
	switch {
	case fell:
		v.add(Fell, a, "follows %d", own)
	case crossed:
		v.add(Crossed, a, "follows %d of another key", other)
	}
}

// follow puts an answer into its line, and reports whether it is below the one
// before once too often.
func (m *Model) follow(a *Answer, at line, seen map[line]lineState) (before int64, fell bool) {
	s := seen[at]
	before = max(s.height, a.Least)
	switch inSession := a.Opened == 0; {
	case a.Anew && m.begun(a.Came()) > 1:
	case a.Anew:
		fell = true
	case inSession:
		fell = a.Height < a.Least || a.Height < before && !a.marked()
	case a.Height < before && (at.key != "" || !a.marked()):
		s.falls++
		fell = s.falls >= m.begun(a.Came())
	}
	if s.height = a.Height; a.Opened == 0 && !a.Anew {
		s.height = max(before, a.Height)
	}
	seen[at] = s
	return before, fell
}

// marked reports whether the answer says of itself that it may be an older one.
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

// Fresh reports whether an answer is the node's own at the newest block, or was
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
