package clients

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const testKey, otherKey = "/staking/pool", "/staking/validators"

// at is a moment of the tests, in seconds.
func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// own is what a node answers with, which is another thing in each fork.
func own(fork uint64, first, last int64) *Truth {
	t := &Truth{First: first, Last: last, hashes: map[string][]uint64{}}
	for h := first; h <= last; h++ {
		t.hashes[testKey] = append(t.hashes[testKey], 1000*fork+uint64(h)/2) // every second block changes it
	}
	t.hashes[otherKey] = t.hashes[testKey]
	return t
}

// answer is one of fork 0 at a height, asked for when that was the newest.
func answer(seconds float64, height int64) Answer {
	return Answer{Key: testKey, Opened: 1, Sent: at(seconds), Tip: height, After: height, Status: 200, Height: height, Hash: uint64(height) / 2}
}

func with(a Answer, change func(*Answer)) Answer {
	change(&a)
	return a
}

func TestModelDetectsViolations(t *testing.T) {
	forks := []Fork{{Began: at(0), Truth: own(0, 90, 150)}, {Began: at(50), Truth: own(1, 90, 150), Holds: 8 * time.Second}}
	fork1 := func(a *Answer) { a.Hash += 1000 }
	page := func(a *Answer) { a.Key = "POST /pages {}" }
	other := func(a *Answer) { a.Key = otherKey }
	session := func(a *Answer) { a.Opened = 0 }
	anew := func(a *Answer) { a.Opened, a.Anew = 0, true }
	waits := func(status int, took time.Duration) func(*Answer) {
		return func(a *Answer) { a.Least, a.Status, a.Took = a.Height, status, took }
	}
	old := func(a *Answer) { a.Opened, a.Cache = 0, "detail=\"memory stale-while-revalidate\"" }
	type wrong struct{ Failures, Cold, Wrong, Early, Fell, Crossed, Heightless int }
	for name, tt := range map[string]struct {
		answers []Answer
		want    wrong
	}{
		"blocks in their order":     {[]Answer{answer(1, 100), answer(2, 101), answer(3, 101)}, wrong{}},
		"content of another height": {[]Answer{with(answer(1, 100), func(a *Answer) { a.Hash++ })}, wrong{Wrong: 1}},
		"a height that never was":   {[]Answer{with(answer(1, 100), func(a *Answer) { a.Height = 1_000_000 })}, wrong{Wrong: 1}},
		"a block that comes later":  {[]Answer{with(answer(1, 105), func(a *Answer) { a.Tip, a.After = 100, 101 })}, wrong{Early: 1}},
		"a height that falls":       {[]Answer{answer(1, 101), answer(2, 100)}, wrong{Fell: 1}},
		"another key that is lower": {[]Answer{answer(1, 101), with(answer(2, 100), other)}, wrong{Crossed: 1}},
		"another key that is lower, and says so": {
			[]Answer{answer(1, 101), with(with(answer(2, 100), other), func(a *Answer) { a.Cache = "fwd=stale; detail=\"memory stale-while-revalidate\"" }), answer(3, 100)},
			wrong{Fell: 1},
		},
		"another key of a chain that was set back": {
			[]Answer{answer(49, 140), with(with(answer(60, 103), fork1), other), with(answer(61, 102), fork1)}, wrong{Crossed: 1},
		},
		"another key on another connection": {
			[]Answer{answer(1, 101), with(answer(2, 100), func(a *Answer) { a.Opened++; other(a) })}, wrong{},
		},
		"a session that falls":                   {[]Answer{with(answer(1, 101), session), with(with(answer(2, 100), session), other)}, wrong{Crossed: 1}},
		"a session that says so, and then falls": {[]Answer{with(answer(1, 101), session), with(answer(2, 99), old), with(answer(3, 100), session)}, wrong{Crossed: 1}},
		"a session that begins anew":             {[]Answer{with(answer(49, 140), session), with(with(answer(60, 101), fork1), anew), with(with(answer(61, 102), fork1), session)}, wrong{}},
		"a session that begins anew for nothing": {[]Answer{with(answer(1, 101), session), with(answer(2, 102), anew)}, wrong{Crossed: 1}},
		"a wait that a set-back ends":            {[]Answer{answer(49, 140), with(answer(48, 141), waits(409, 4*time.Second)), with(answer(51, 100), waits(504, 10*time.Second))}, wrong{}},
		"a wait that fails by itself":            {[]Answer{answer(1, 100), with(answer(2, 101), waits(504, 10*time.Second)), with(answer(30, 130), waits(409, time.Second))}, wrong{Failures: 2}},
		"a wait that fails in another way":       {[]Answer{answer(49, 140), with(answer(51, 100), waits(500, time.Second))}, wrong{Failures: 1}},
		"a wait that fails long after": {
			[]Answer{answer(49, 140), with(answer(66, 104), fork1), with(answer(70, 105), waits(504, time.Second))}, wrong{Failures: 1},
		},
		"a block that was waited for": {[]Answer{with(answer(1, 100), func(a *Answer) { a.Least = 101; old(a) })}, wrong{Crossed: 1}},
		"another connection is lower": {[]Answer{answer(1, 101), with(answer(2, 100), func(a *Answer) { a.Opened++ })}, wrong{}},
		"an epoch that begins": {
			[]Answer{answer(49, 140), answer(55, 140), with(answer(60, 101), fork1), with(answer(61, 102), fork1)}, wrong{},
		},
		"a height that falls twice in an epoch": {
			[]Answer{answer(49, 140), with(answer(60, 103), fork1), with(answer(61, 102), fork1)}, wrong{Fell: 1},
		},
		"the old chain that agrees with the new": {
			[]Answer{answer(49, 140), with(answer(55, 140), func(a *Answer) { a.Tip, a.After = 100, 100 })}, wrong{},
		},
		"the old chain long after": {[]Answer{answer(70, 140)}, wrong{Wrong: 1}},
		"a failure of a known key": {
			[]Answer{answer(1, 100), with(answer(2, 101), func(a *Answer) { a.Status = 503 })}, wrong{Failures: 1},
		},
		"a failure when all was dropped": {
			[]Answer{answer(49, 140), with(answer(62, 101), func(a *Answer) { a.Status = 502 }), with(answer(70, 105), func(a *Answer) { a.Status = 502 })}, wrong{Cold: 2},
		},
		"a failure before anything is dropped": {
			[]Answer{answer(49, 140), with(answer(55, 101), func(a *Answer) { a.Status = 502 })}, wrong{Failures: 1},
		},
		"a failure of a known key of the new chain": {
			[]Answer{answer(49, 140), with(answer(70, 104), fork1), with(answer(71, 105), func(a *Answer) { a.Status = 502 })}, wrong{Failures: 1},
		},
		"a failure of a cold key": {[]Answer{with(answer(1, 100), func(a *Answer) { a.Status = 502 })}, wrong{Cold: 1}},
		"a killed server": {
			[]Answer{answer(1, 100), with(answer(2, 101), func(a *Answer) { a.Status, a.Server = 0, "killed" })}, wrong{},
		},
		"pages that stay":            {[]Answer{with(answer(1, 0), page), with(answer(2, 0), page)}, wrong{}},
		"pages that change":          {[]Answer{with(answer(1, 0), page), with(answer(2, 1), page), with(answer(3, 2), page)}, wrong{Wrong: 1}},
		"an answer without a height": {[]Answer{with(answer(1, 100), func(a *Answer) { a.Height = 0 })}, wrong{Heightless: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			m := Model{Forks: forks, Grace: 15 * time.Second, Lost: func(a *Answer) bool { return a.Server == "killed" }}
			v := m.Check(tt.answers, at(0), at(100))
			got := wrong{v.Found[Failed], v.Found[Cold], v.Found[Wrong], v.Found[Early], v.Found[Fell], v.Found[Crossed], v.Found[Heightless]}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s%q", diff, v.Examples)
			}
			if sound := got.Failures+got.Wrong+got.Early+got.Fell+got.Crossed+got.Heightless == 0; sound && v.Answers > 0 != (v.Broken() == nil) {
				t.Errorf("broken: %v", v.Broken())
			}
		})
	}
}

func TestRequestsMayFailAfterARollbackThatDropsEntries(t *testing.T) {
	forks := []Fork{{Began: at(0), Truth: own(0, 90, 150)}, {Began: at(50), Truth: own(1, 90, 150), Holds: time.Second}}
	failed := func(seconds float64) Answer {
		return with(answer(seconds, 101), func(a *Answer) { a.Status = 502 })
	}
	m := Model{Forks: forks, Grace: 15 * time.Second}
	v := m.Check([]Answer{answer(49, 140), failed(50.5), failed(53)}, at(0), at(100))
	if v.Found[Failed] != 1 || v.Found[Cold] != 1 {
		t.Errorf("got %v, want one that was cached and one that was not", v.Found)
	}
}

func TestFreshAgainIsAfterTheLastOldAnswer(t *testing.T) {
	m := Model{Forks: []Fork{{Began: at(0), Truth: own(0, 90, 150)}}}
	old := func(a *Answer) { a.Tip, a.After = a.Height+10, a.Height+10 }
	answers := []Answer{with(answer(1, 100), old), answer(2, 112), with(answer(4, 103), old), answer(5, 115), with(answer(20, 120), old)}
	for from, want := range map[float64]time.Duration{0: 4 * time.Second, 3: time.Second, 4.5: 0} {
		if got, _ := m.FreshAgain(answers, at(from), at(10), 2); got != want {
			t.Errorf("from %v: %v, want %v", from, got, want)
		}
	}
}

func TestTruthKnowsLastHeightOfABody(t *testing.T) {
	own := own(0, 100, 105)
	for name, tt := range map[string]struct {
		hash      uint64
		tip, want int64
		ok        bool
	}{
		"the newest":           {52, 105, 105, true},
		"the one before":       {51, 105, 103, true},
		"one of two blocks":    {51, 102, 102, true},
		"never the node's own": {9, 105, 0, false},
	} {
		if got, ok := own.Until(testKey, tt.hash, tt.tip); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %d, %v; want %d, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestAnswersThatCannotBeReadAtAHeightCountOnlyWhereTheyFail(t *testing.T) {
	const latest = "/blocks/latest"
	m := &Model{Forks: []Fork{{Truth: own(1, 1, 9)}}, Any: []string{latest}}
	asked := func(seconds float64, a Answer) Answer {
		a.Key, a.Server, a.Opened, a.Sent, a.After = latest, "server", 1, at(seconds), 9
		return a
	}
	v := m.Check([]Answer{
		asked(1, Answer{Status: 200, Height: 9, Hash: 1}), asked(2, Answer{Status: 200, Height: 8, Hash: 2}),
		asked(3, Answer{Status: 200}), asked(4, Answer{Status: 502}),
	}, at(0), at(9))
	v.Examples = nil
	want := &Verdict{Answers: 3, Found: map[string]int{Failed: 1}}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
