package freshness_test

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache/freshness"
	"github.com/tipcache/tipcache/upstream/expect"
)

var live = freshness.Policy{
	FreshBlocks: 1, StaleBlocks: 10, ErrorBlocks: 100,
	Fresh: 2 * time.Second, Stale: 20 * time.Second, StaleIfError: time.Hour, Keep: 2 * time.Hour,
}

func TestPolicyMeasuresFreshnessInBlocksOrElseSeconds(t *testing.T) {
	params := freshness.Policy{
		FreshBlocks: 50, StaleBlocks: 500, ErrorBlocks: 5000,
		Fresh: 100 * time.Second, Stale: 1000 * time.Second, StaleIfError: 10_000 * time.Second,
	}
	pinned := freshness.Policy{Immutable: true}
	found := live
	found.Immutable, found.ImmutableIfOK = true, true
	lasting := live
	lasting.StalePastExpires = true
	tests := []struct {
		name    string
		policy  freshness.Policy
		height  int64
		age     time.Duration
		expires time.Duration // from now; 0 = never
		tip     int64
		want    freshness.State
	}{
		{"live, read at the tip, is fresh", live, 100, 0, 0, 100, freshness.Fresh},
		{"live, one block behind, is fresh", live, 100, 0, 0, 101, freshness.Fresh},
		{"live, two blocks behind, is stale", live, 100, 0, 0, 102, freshness.Stale},
		{"live, as far behind as allowed, is stale", live, 100, 0, 0, 110, freshness.Stale},
		{"live, farther behind, is for errors", live, 100, 0, 0, 111, freshness.StaleIfError},
		{"live, as far behind as errors allow, is for errors", live, 100, time.Hour, 0, 200, freshness.StaleIfError},
		{"live, farther behind than errors allow, is gone", live, 100, 0, 0, 201, freshness.Expired},
		{"live, for errors by blocks but too old by the clock, is gone", live, 100, time.Hour + 1, 0, 111, freshness.Expired},
		{"live, read ahead of this replica's tip, is fresh", live, 105, 0, 0, 100, freshness.Fresh},
		{"live stays fresh while the chain stands still", live, 100, 24 * time.Hour, 0, 100, freshness.Fresh},

		{"params serve for many blocks", params, 100, time.Hour, 0, 150, freshness.Fresh},
		{"params get stale", params, 100, 0, 0, 151, freshness.Stale},
		{"params get old", params, 100, 0, 0, 601, freshness.StaleIfError},
		{"params get lost", params, 100, 0, 0, 5101, freshness.Expired},

		{"pinned is fresh at any tip", pinned, 7, 24 * time.Hour, 0, 1_000_000, freshness.Fresh},
		{"pinned is fresh without a tip", pinned, 7, 24 * time.Hour, 0, 0, freshness.Fresh},
		{"fixed once it was found is fresh at any tip", found, 7, 24 * time.Hour, 0, 1_000_000, freshness.Fresh},
		{"pinned but expired is gone", pinned, 7, time.Minute, -1, 100, freshness.Expired},

		{"without a tip seconds count: fresh", live, 100, 2 * time.Second, 0, 0, freshness.Fresh},
		{"without a tip seconds count: stale", live, 100, 20 * time.Second, 0, 0, freshness.Stale},
		{"without a tip seconds count: for errors", live, 100, time.Hour, 0, 0, freshness.StaleIfError},
		{"without a tip seconds count: gone", live, 100, time.Hour + 1, 0, 0, freshness.Expired},
		{"of unknown height, without a tip, is fresh by seconds", live, 0, 0, 0, 0, freshness.Fresh},
		{"of unknown height is for errors at a tip", live, 0, 0, 0, 100, freshness.StaleIfError},
		{"of unknown height is for errors at a low tip, too", live, 0, 0, 0, 5, freshness.StaleIfError},
		{"of unknown height stays for errors at a tip", live, 0, 21 * time.Second, 0, 100, freshness.StaleIfError},
		{"of unknown height gets lost by seconds at a tip", live, 0, 2 * time.Hour, 0, 100, freshness.Expired},
		{"read by a clock ahead of ours is fresh", live, 0, -time.Minute, 0, 0, freshness.Fresh},

		{"an answer with a life of its own serves until then", live, 100, 0, time.Second, 100, freshness.Fresh},
		{"an answer with a life of its own ends with it, at the tip or not", live, 100, 0, -1, 100, freshness.Expired},
		{"one that may live on is stale from then on", lasting, 100, 0, -1, 100, freshness.Stale},
		{"one that may live on is for errors as others are", lasting, 100, 0, -1, 111, freshness.StaleIfError},
		{"one that may live on is for errors in seconds, too", lasting, 0, time.Hour, -1, 0, freshness.StaleIfError},
		{"one that may live on is gone in the end", lasting, 100, 0, -1, 201, freshness.Expired},
		{"the zero policy serves at the very block", freshness.Policy{}, 100, time.Hour, 0, 100, freshness.Fresh},
		{"the zero policy serves at no other block", freshness.Policy{}, 100, 0, 0, 101, freshness.Expired},
		{"the zero policy serves for no time", freshness.Policy{}, 0, 1, 0, 0, freshness.Expired},
	}
	now := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &freshness.Stamp{Height: tt.height, ReadAt: now.Add(-tt.age), Status: 200, Lasting: true}
			if tt.expires != 0 {
				s.Expires = now.Add(tt.expires)
			}
			if got := (&freshness.Requirement{Policy: &tt.policy, Tip: tt.tip}).Judge(s, clock); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestExpiredAnswerIsServedOnlyIfItAllowsIt(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	lasting := live
	lasting.StalePastExpires = true
	for name, tt := range map[string]struct {
		policy freshness.Policy
		answer freshness.Stamp
		want   time.Duration // in the shared store
		state  freshness.State
	}{
		"without an expiry":                 {live, freshness.Stamp{Height: 100}, live.Keep, freshness.Fresh},
		"a usual policy":                    {live, freshness.Stamp{Height: 100, Expires: now, Lasting: true}, 0, freshness.Expired},
		"a usual policy, before the expiry": {live, freshness.Stamp{Height: 100, Expires: now.Add(time.Minute)}, time.Minute, freshness.Fresh},
		"an expiry beyond the policy":       {live, freshness.Stamp{Height: 100, Expires: now.Add(time.Hour * 5)}, live.Keep, freshness.Fresh},
		"a failure of the origin":           {lasting, freshness.Stamp{Height: 100, Expires: now}, 0, freshness.Expired},
		"an answer that may live on":        {lasting, freshness.Stamp{Height: 100, Expires: now, Lasting: true}, live.Keep, freshness.Stale},
	} {
		tt.answer.ReadAt = now
		r := freshness.Requirement{Policy: &tt.policy, Tip: 100}
		alive := tt.state != freshness.Expired
		expect.Equal(t, tt.policy.KeepFor(&tt.answer, clock), tt.want, "%s: kept for", name)
		s := &tt.answer
		if r.Judge(s, clock) != tt.state || r.StandsIn(s, clock) != alive {
			t.Errorf("%s: %v, stands in %t; want %v", name, r.Judge(s, clock), !alive, tt.state)
		}
	}
}

func TestHeightsRequiredByQuery(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	for name, tt := range map[string]struct {
		least, most, height int64
		believed, serves    bool
	}{
		"no bounds":          {0, 0, 100, true, true},
		"the least height":   {100, 0, 100, true, true},
		"below the least":    {101, 0, 100, true, false},
		"the highest height": {0, 100, 100, true, true},
		"above the highest":  {0, 99, 100, false, false},
		"an unknown height":  {0, 99, 0, true, true},
	} {
		r := freshness.Requirement{Policy: &freshness.Policy{Immutable: true}, Tip: 100, MinHeight: tt.least, MaxHeight: tt.most}
		s, older := &freshness.Stamp{Height: tt.height, ReadAt: now}, &freshness.Stamp{Height: 90, ReadAt: now.Add(-time.Minute)}
		if r.Believes(tt.height) != tt.believed || r.Replaces(older, s) != (!tt.believed) {
			t.Errorf("%s: believed is %t, an older answer replaces it is %t", name, r.Believes(tt.height), r.Replaces(older, s))
		}
		if (r.Judge(s, clock) == freshness.Fresh) != tt.serves || r.StandsIn(s, clock) != tt.serves {
			t.Errorf("%s: %v, stands in %t, want %t", name, r.Judge(s, clock), r.StandsIn(s, clock), tt.serves)
		}
	}
}

func TestStaleEntryServedWhileOriginIsBehind(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	at := func(height int64) *freshness.Stamp { return &freshness.Stamp{Height: height, ReadAt: now} }
	r := freshness.Requirement{Policy: &live, Tip: 150, MinHeight: 100}
	for name, tt := range map[string]struct {
		answer, cached int64
		want           bool
	}{
		"of a lower block":                  {120, 130, true},
		"of the same block":                 {130, 130, false},
		"of a higher block":                 {131, 130, false},
		"of a lower block, but fresh":       {149, 150, false},
		"of a lower block than one too low": {90, 99, false},
		"of an unknown height":              {0, 130, false},
	} {
		expect.Equal(t, r.FallsBehind(at(tt.answer), at(tt.cached), clock), tt.want, "%s", name)
	}
}

func TestHeightBeyondBoundIsRejected(t *testing.T) {
	for most, want := range map[int64]bool{0: true, 1: false, 6: false, 7: true} {
		expect.Equal(t, (&freshness.Requirement{MaxHeight: most}).Believes(7), want, "Believes(7) with MaxHeight %d", most)
	}
}

func TestNotFoundAnswerIsNotImmutable(t *testing.T) {
	policy := freshness.Policy{Immutable: true, ImmutableIfOK: true}
	for status, want := range map[int]bool{200: true, 404: false} {
		expect.Equal(t, policy.IsImmutable(&freshness.Stamp{Status: status}), want, "status %d", status)
	}
}

func TestHeightsOrderAnswersAndElseTheTimeOfReading(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		height, old int64
		later       time.Duration
		want        bool
	}{
		"a higher one, read before":         {101, 100, -time.Second, true},
		"a lower one, read later":           {99, 100, time.Second, false},
		"of the same height, read later":    {100, 100, time.Second, true},
		"of the same height, read before":   {100, 100, -time.Second, false},
		"its equal":                         {100, 100, 0, true},
		"of unknown height, read later":     {0, 100, time.Second, true},
		"of unknown height, read before":    {0, 100, -time.Second, false},
		"of a known one, read before":       {100, 0, -time.Second, false},
		"both of unknown height, the later": {0, 0, time.Second, true},
	} {
		s, old := &freshness.Stamp{Height: tt.height, ReadAt: now.Add(tt.later)}, &freshness.Stamp{Height: tt.old, ReadAt: now}
		expect.Equal(t, freshness.Newer(s, old), tt.want, "%s: newer", name)
	}
}
