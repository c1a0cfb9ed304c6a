package clients

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/expect"
)

const testKey, otherKey = "/staking/pool", "/staking/validators"

// at is a moment of the tests, in seconds.
func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// truth returns the responses of a node, which differ in each fork.
func truth(fork uint64, first, last int64) *Truth {
	t := &Truth{First: first, Last: last, hashes: map[string][]uint64{}}
	for h := first; h <= last; h++ {
		t.hashes[testKey] = append(t.hashes[testKey], 1000*fork+uint64(h)/2) // every second block changes it
	}
	t.hashes[otherKey] = t.hashes[testKey]
	return t
}

// answer returns an answer of fork 0 at a height that was the newest.
func answer(seconds float64, height int64) Answer {
	return Answer{Key: testKey, Opened: 1, Sent: at(seconds), Tip: height, After: height, Status: 200, Height: height, Hash: uint64(height) / 2}
}

func with(a Answer, change func(*Answer)) Answer {
	change(&a)
	return a
}

func TestModelDetectsViolations(t *testing.T) {
	forks := []Fork{{Began: at(0), Truth: truth(0, 90, 150)}, {Began: at(50), Truth: truth(1, 90, 150), Holds: 8 * time.Second}}
	fork1 := func(a *Answer) { a.Hash += 1000 }
	page := func(a *Answer) { a.Key = "POST /pages {}" }
	other := func(a *Answer) { a.Key = otherKey }
	session := func(a *Answer) { a.Opened = 0 }
	restarted := func(a *Answer) { a.Opened, a.Anew = 0, true }
	waits := func(status int, took time.Duration) func(*Answer) {
		return func(a *Answer) { a.Least, a.Status, a.Took = a.Height, status, took }
	}
	old := func(a *Answer) { a.Opened, a.Cache = 0, "detail=\"memory stale-while-revalidate\"" }
	type wrong struct{ Failures, Cold, Wrong, Early, Fell, Crossed, Heightless int }
	for name, tt := range map[string]struct {
		answers []Answer
		want    wrong
	}{
		"increasing heights":            {[]Answer{answer(1, 100), answer(2, 101), answer(3, 101)}, wrong{}},
		"content of another height":     {[]Answer{with(answer(1, 100), func(a *Answer) { a.Hash++ })}, wrong{Wrong: 1}},
		"height never reached":          {[]Answer{with(answer(1, 100), func(a *Answer) { a.Height = 1_000_000 })}, wrong{Wrong: 1}},
		"height not reached yet":        {[]Answer{with(answer(1, 105), func(a *Answer) { a.Tip, a.After = 100, 101 })}, wrong{Early: 1}},
		"height that falls":             {[]Answer{answer(1, 101), answer(2, 100)}, wrong{Fell: 1}},
		"another key at a lower height": {[]Answer{answer(1, 101), with(answer(2, 100), other)}, wrong{Crossed: 1}},
		"another key at a lower height, marked stale": {
			[]Answer{answer(1, 101), with(with(answer(2, 100), other), func(a *Answer) { a.Cache = "fwd=stale; detail=\"memory stale-while-revalidate\"" }), answer(3, 100)},
			wrong{Fell: 1},
		},
		"another key after a rollback": {
			[]Answer{answer(49, 140), with(with(answer(60, 103), fork1), other), with(answer(61, 102), fork1)}, wrong{Crossed: 1},
		},
		"another key on another connection": {
			[]Answer{answer(1, 101), with(answer(2, 100), func(a *Answer) { a.Opened++; other(a) })}, wrong{},
		},
		"session that falls":                   {[]Answer{with(answer(1, 101), session), with(with(answer(2, 100), session), other)}, wrong{Crossed: 1}},
		"session marked stale that then falls": {[]Answer{with(answer(1, 101), session), with(answer(2, 99), old), with(answer(3, 100), session)}, wrong{Crossed: 1}},
		"session restarted by a rollback":      {[]Answer{with(answer(49, 140), session), with(with(answer(60, 101), fork1), restarted), with(with(answer(61, 102), fork1), session)}, wrong{}},
		"session restarted without a rollback": {[]Answer{with(answer(1, 101), session), with(answer(2, 102), restarted)}, wrong{Crossed: 1}},
		"wait ended by a rollback":             {[]Answer{answer(49, 140), with(answer(48, 141), waits(409, 4*time.Second)), with(answer(51, 100), waits(504, 10*time.Second))}, wrong{}},
		"wait that fails without a rollback":   {[]Answer{answer(1, 100), with(answer(2, 101), waits(504, 10*time.Second)), with(answer(30, 130), waits(409, time.Second))}, wrong{Failures: 2}},
		"wait that fails with status 500":      {[]Answer{answer(49, 140), with(answer(51, 100), waits(500, time.Second))}, wrong{Failures: 1}},
		"wait that fails long after a rollback": {
			[]Answer{answer(49, 140), with(answer(66, 104), fork1), with(answer(70, 105), waits(504, time.Second))}, wrong{Failures: 1},
		},
		"height below the requested one":     {[]Answer{with(answer(1, 100), func(a *Answer) { a.Least = 101; old(a) })}, wrong{Crossed: 1}},
		"lower height on another connection": {[]Answer{answer(1, 101), with(answer(2, 100), func(a *Answer) { a.Opened++ })}, wrong{}},
		"new epoch": {
			[]Answer{answer(49, 140), answer(55, 140), with(answer(60, 101), fork1), with(answer(61, 102), fork1)}, wrong{},
		},
		"height that falls within an epoch": {
			[]Answer{answer(49, 140), with(answer(60, 103), fork1), with(answer(61, 102), fork1)}, wrong{Fell: 1},
		},
		"old chain shortly after the rollback": {
			[]Answer{answer(49, 140), with(answer(55, 140), func(a *Answer) { a.Tip, a.After = 100, 100 })}, wrong{},
		},
		"old chain long after the rollback": {[]Answer{answer(70, 140)}, wrong{Wrong: 1}},
		"failure of a known key": {
			[]Answer{answer(1, 100), with(answer(2, 101), func(a *Answer) { a.Status = 503 })}, wrong{Failures: 1},
		},
		"failure after entries were dropped": {
			[]Answer{answer(49, 140), with(answer(62, 101), func(a *Answer) { a.Status = 502 }), with(answer(70, 105), func(a *Answer) { a.Status = 502 })}, wrong{Cold: 2},
		},
		"failure before entries are dropped": {
			[]Answer{answer(49, 140), with(answer(55, 101), func(a *Answer) { a.Status = 502 })}, wrong{Failures: 1},
		},
		"failure of a known key of the new chain": {
			[]Answer{answer(49, 140), with(answer(70, 104), fork1), with(answer(71, 105), func(a *Answer) { a.Status = 502 })}, wrong{Failures: 1},
		},
		"failure of a cold key": {[]Answer{with(answer(1, 100), func(a *Answer) { a.Status = 502 })}, wrong{Cold: 1}},
		"killed server": {
			[]Answer{answer(1, 100), with(answer(2, 101), func(a *Answer) { a.Status, a.Server = 0, "killed" })}, wrong{},
		},
		"unchanged pages":         {[]Answer{with(answer(1, 0), page), with(answer(2, 0), page)}, wrong{}},
		"changed pages":           {[]Answer{with(answer(1, 0), page), with(answer(2, 1), page), with(answer(3, 2), page)}, wrong{Wrong: 1}},
		"answer without a height": {[]Answer{with(answer(1, 100), func(a *Answer) { a.Height = 0 })}, wrong{Heightless: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			m := Model{Forks: forks, Grace: 15 * time.Second, Lost: func(a *Answer) bool { return a.Server == "killed" }}
			v := m.Check(tt.answers, at(0), at(100))
			got := wrong{v.Found[Failed], v.Found[Cold], v.Found[Wrong], v.Found[Early], v.Found[Fell], v.Found[Crossed], v.Found[Heightless]}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s%q", diff, v.Examples)
			}
			if sound := got.Failures+got.Wrong+got.Early+got.Fell+got.Crossed+got.Heightless == 0; sound && v.Answers > 0 != (v.Broken() == nil) {
				t.Errorf("Broken = %v for a sound run, want nil if it has answers", v.Broken())
			}
		})
	}
}

func TestRequestsMayFailAfterARollbackThatDropsEntries(t *testing.T) {
	forks := []Fork{{Began: at(0), Truth: truth(0, 90, 150)}, {Began: at(50), Truth: truth(1, 90, 150), Holds: time.Second}}
	failed := func(seconds float64) Answer {
		return with(answer(seconds, 101), func(a *Answer) { a.Status = 502 })
	}
	m := Model{Forks: forks, Grace: 15 * time.Second}
	v := m.Check([]Answer{answer(49, 140), failed(50.5), failed(53)}, at(0), at(100))
	if v.Found[Failed] != 1 || v.Found[Cold] != 1 {
		t.Errorf("violations = %v, want one failure of a cached key and one of a cold key", v.Found)
	}
}

func TestFreshAgainFollowsTheLastOldAnswer(t *testing.T) {
	m := Model{Forks: []Fork{{Began: at(0), Truth: truth(0, 90, 150)}}}
	old := func(a *Answer) { a.Tip, a.After = a.Height+10, a.Height+10 }
	answers := []Answer{with(answer(1, 100), old), answer(2, 112), with(answer(4, 103), old), answer(5, 115), with(answer(20, 120), old)}
	for from, want := range map[float64]time.Duration{0: 4 * time.Second, 3: time.Second, 4.5: 0} {
		if got, _ := m.FreshAgain(answers, at(from), at(10), 2); got != want {
			t.Errorf("FreshAgain from %v s = %v, want %v", from, got, want)
		}
	}
}

func TestTruthKnowsLastHeightOfABody(t *testing.T) {
	node := truth(0, 100, 105)
	for name, tt := range map[string]struct {
		hash      uint64
		tip, want int64
		ok        bool
	}{
		"newest body":         {52, 105, 105, true},
		"body before it":      {51, 105, 103, true},
		"first of two blocks": {51, 102, 102, true},
		"unknown body":        {9, 105, 0, false},
	} {
		if got, ok := node.Until(testKey, tt.hash, tt.tip); got != tt.want || ok != tt.ok {
			t.Errorf("%s: Until = %d, %v; want %d, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestAnswersOfAnyHeightCountOnlyIfTheyFail(t *testing.T) {
	const latest = "/blocks/latest"
	m := &Model{Forks: []Fork{{Truth: truth(1, 1, 9)}}, Any: []string{latest}}
	answerAt := func(seconds float64, a Answer) Answer {
		a.Key, a.Server, a.Opened, a.Sent, a.After = latest, "server", 1, at(seconds), 9
		return a
	}
	v := m.Check([]Answer{
		answerAt(1, Answer{Status: 200, Height: 9, Hash: 1}), answerAt(2, Answer{Status: 200, Height: 8, Hash: 2}),
		answerAt(3, Answer{Status: 200}), answerAt(4, Answer{Status: 502}),
	}, at(0), at(9))
	v.Examples = nil
	want := &Verdict{Answers: 3, Found: map[string]int{Failed: 1}}
	expect.NoDiff(t, v, want, "verdict")
}
