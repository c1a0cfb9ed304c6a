package clients

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Fork is a part of a run in which the chain only grew. Each one except the first begins with a rollback.
type Fork struct {
	Began time.Time
	From  int64 // the height that the chain was rolled back to
	Truth *Truth
	Holds time.Duration // how long replicas keep the entries from before
}

// A Model describes which responses are allowed, given the history of the chain:
//
//   - at each height a key has the node's content. A POST always has the same content;
//   - on a connection, the height of a key falls at most once per rollback. So does the height over all keys, except in
//     responses that are marked as stale;
//   - in a session, the height falls only in responses that are marked as stale, and in responses that begin a new
//     session after a rollback;
//   - no response is from a future block, or from a fork that ended longer than Grace before the request.
type Model struct {
	Forks []Fork // the first one begins before the run
	Grace time.Duration
	Lost  func(*Answer) bool // reports whether a request may fail; nil for none
	Any   []string           // keys that cannot be read at a height, whose content is not checked
}

// The findings are kinds of violations. All except Cold break a promise.
const (
	Failed     = "failed, were cached" // requests for keys that were answered before in the epoch
	Cold       = "failed, cold"        // other requests that failed
	Wrong      = "wrong content"       // the content differs from the node's at that height
	Early      = "before its block"    // from a block that did not exist yet
	Fell       = "height fell"         // at a lower height than an earlier response of the key on the connection
	Crossed    = "fell between keys"   // not marked, and at a lower height than an earlier response of another key
	Heightless = "without height"
)

// Findings are all findings.
var Findings = []string{Failed, Cold, Wrong, Early, Fell, Crossed, Heightless}

// A Verdict counts the findings in a history.
type Verdict struct {
	Answers  int
	Found    map[string]int // by finding
	Examples []string       // a few
}

// add counts a finding.
func (v *Verdict) add(f string, a *Answer, format string, args ...any) {
	if v.Found[f]++; len(v.Examples) < 5 && f != Cold {
		v.Examples = append(v.Examples, fmt.Sprintf("%v %s", a, fmt.Sprintf(format, args...)))
	}
}

// Broken returns an error that names every broken promise.
func (v *Verdict) Broken() error {
	if v.Answers == 0 {
		return errors.New("no request was answered")
	}
	var broken []error
	for _, f := range Findings {
		if n := v.Found[f]; n > 0 && f != Cold {
			broken = append(broken, fmt.Errorf("%d of %d answers: %s: %q", n, v.Answers, f, v.Examples))
		}
	}
	return errors.Join(broken...)
}

// Check checks a history against the model, and returns the findings of requests sent between two moments.
func (m *Model) Check(answers []Answer, from, to time.Time) *Verdict {
	v, before := &Verdict{Found: map[string]int{}}, &Verdict{Found: map[string]int{}}
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

// cached records since when a key has been answered in an epoch.
type cached struct {
	epoch int
	since time.Time
}

// epoch returns the number of forks that replicas knew at a time. It is settled once no replica has entries of the
// previous fork, which may be dropped until then.
func (m *Model) epoch(at time.Time) (n int, settled bool) {
	n = m.begun(at)
	newest := m.Forks[n-1]
	since := at.Sub(newest.Began)
	if n > 1 && since < newest.Holds {
		return n - 1, true
	}
	return n, n == 1 || since > m.Grace
}

// lost reports whether a request may fail. A request that waits for a block may fail if the chain was rolled back during
// the request or within Grace before it.
func (m *Model) lost(a *Answer) bool {
	n := m.begun(a.Came())
	setBack := n > 1 && a.Sent.Sub(m.Forks[n-1].Began) <= m.Grace
	gone := a.Least > 0 && (a.Status == http.StatusConflict || a.Status == http.StatusGatewayTimeout)
	return gone && setBack || m.Lost != nil && !a.OK() && m.Lost(a)
}

// answer checks a response, given the first response to its key.
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

// content checks the content of a response. It must be from an existing block of the newest fork, or from a fork that
// ended recently. Forks may have equal contents.
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
	case found == newest: // the clocks may differ slightly
		v.add(Early, a, "is of a block that was not there")
	default:
		v.add(Wrong, a, "is of a chain that is gone")
	}
}

// A line identifies a height that may not fall: of a key on a connection, or of all keys.
type line struct {
	client, opened int
	key            string // "" for all
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

// follow adds a response to its line, and reports whether the height has fallen too often.
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

// marked reports whether the response is marked as possibly stale.
func (a *Answer) marked() bool {
	return strings.Contains(a.Cache, "stale-while-revalidate") || strings.Contains(a.Cache, "stale-if-error") || strings.Contains(a.Cache, "seconds")
}

// begun returns the number of forks that had begun by a time, at least one.
func (m *Model) begun(by time.Time) int {
	n := 1
	for n < len(m.Forks) && !m.Forks[n].Began.After(by) {
		n++
	}
	return n
}

// Fresh reports whether a response equals the node's at the newest block, or at one at most a number of blocks ago.
func (m *Model) Fresh(a *Answer, blocks int64) bool {
	if !a.OK() || strings.HasPrefix(a.Key, http.MethodPost) || slices.Contains(m.Any, a.Key) {
		return a.OK()
	}
	height, ok := m.Forks[m.begun(a.Sent)-1].Truth.Until(a.Key, a.Hash, a.Tip+1)
	return ok && height >= a.Tip-blocks
}

// FreshAgain returns the last response that is not fresh among the requests sent between two moments, and how long after
// the first moment it was requested. last is nil for none.
func (m *Model) FreshAgain(answers []Answer, from, end time.Time, blocks int64) (after time.Duration, last *Answer) {
	for i := range answers {
		a := &answers[i]
		if since := a.Sent.Sub(from); since > after && a.Sent.Before(end) && !m.lost(a) && !m.Fresh(a, blocks) {
			after, last = since, a
		}
	}
	return after, last
}
