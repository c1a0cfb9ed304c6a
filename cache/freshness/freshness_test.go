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
	foundOnly := live
	foundOnly.Immutable, foundOnly.ImmutableIfOK = true, true
	lasting := live
	lasting.StalePastExpires = true
	tests := []struct {
		name    string
		policy  freshness.Policy
		height  int64
		age     time.Duration
		expires time.Duration // from now; 0 means never
		tip     int64
		want    freshness.State
	}{
		{"live, read at the tip, is fresh", live, 100, 0, 0, 100, freshness.Fresh},
		{"live, one block behind, is fresh", live, 100, 0, 0, 101, freshness.Fresh},
		{"live, two blocks behind, is stale", live, 100, 0, 0, 102, freshness.Stale},
		{"live, as far behind as allowed, is stale", live, 100, 0, 0, 110, freshness.Stale},
		{"live, beyond StaleBlocks, is stale-if-error", live, 100, 0, 0, 111, freshness.StaleIfError},
		{"live, at ErrorBlocks, is stale-if-error", live, 100, time.Hour, 0, 200, freshness.StaleIfError},
		{"live, beyond ErrorBlocks, is expired", live, 100, 0, 0, 201, freshness.Expired},
		{"live, within ErrorBlocks but older than StaleIfError, is expired", live, 100, time.Hour + 1, 0, 111, freshness.Expired},
		{"live, read above this replica's tip, is fresh", live, 105, 0, 0, 100, freshness.Fresh},
		{"live stays fresh while the chain halts", live, 100, 24 * time.Hour, 0, 100, freshness.Fresh},

		{"params, within FreshBlocks, are fresh", params, 100, time.Hour, 0, 150, freshness.Fresh},
		{"params, beyond FreshBlocks, are stale", params, 100, 0, 0, 151, freshness.Stale},
		{"params, beyond StaleBlocks, are stale-if-error", params, 100, 0, 0, 601, freshness.StaleIfError},
		{"params, beyond ErrorBlocks, are expired", params, 100, 0, 0, 5101, freshness.Expired},

		{"immutable is fresh at any tip", pinned, 7, 24 * time.Hour, 0, 1_000_000, freshness.Fresh},
		{"immutable is fresh without a tip", pinned, 7, 24 * time.Hour, 0, 0, freshness.Fresh},
		{"immutable if OK is fresh at any tip", foundOnly, 7, 24 * time.Hour, 0, 1_000_000, freshness.Fresh},
		{"immutable past its expiry is expired", pinned, 7, time.Minute, -1, 100, freshness.Expired},

		{"without a tip, within Fresh, is fresh", live, 100, 2 * time.Second, 0, 0, freshness.Fresh},
		{"without a tip, within Stale, is stale", live, 100, 20 * time.Second, 0, 0, freshness.Stale},
		{"without a tip, within StaleIfError, is stale-if-error", live, 100, time.Hour, 0, 0, freshness.StaleIfError},
		{"without a tip, beyond StaleIfError, is expired", live, 100, time.Hour + 1, 0, 0, freshness.Expired},
		{"of unknown height, without a tip, is fresh by its age", live, 0, 0, 0, 0, freshness.Fresh},
		{"of unknown height, at a tip, is stale-if-error", live, 0, 0, 0, 100, freshness.StaleIfError},
		{"of unknown height, at a low tip, is stale-if-error", live, 0, 0, 0, 5, freshness.StaleIfError},
		{"of unknown height, at a tip, older than Stale, is stale-if-error", live, 0, 21 * time.Second, 0, 100, freshness.StaleIfError},
		{"of unknown height, at a tip, older than StaleIfError, is expired", live, 0, 2 * time.Hour, 0, 100, freshness.Expired},
		{"read in the future, by another clock, is fresh", live, 0, -time.Minute, 0, 0, freshness.Fresh},

		{"before its expiry is fresh", live, 100, 0, time.Second, 100, freshness.Fresh},
		{"past its expiry is expired, even at the tip", live, 100, 0, -1, 100, freshness.Expired},
		{"StalePastExpires, past the expiry, is stale", lasting, 100, 0, -1, 100, freshness.Stale},
		{"StalePastExpires, past the expiry and StaleBlocks, is stale-if-error", lasting, 100, 0, -1, 111, freshness.StaleIfError},
		{"StalePastExpires, past the expiry and Stale, is stale-if-error", lasting, 0, time.Hour, -1, 0, freshness.StaleIfError},
		{"StalePastExpires, past the expiry and ErrorBlocks, is expired", lasting, 100, 0, -1, 201, freshness.Expired},
		{"the zero policy, at the same block, is fresh", freshness.Policy{}, 100, time.Hour, 0, 100, freshness.Fresh},
		{"the zero policy, at the next block, is expired", freshness.Policy{}, 100, 0, 0, 101, freshness.Expired},
		{"the zero policy, without a tip, is expired", freshness.Policy{}, 0, 1, 0, 0, freshness.Expired},
	}
	now := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &freshness.Stamp{Height: tt.height, ReadAt: now.Add(-tt.age), Status: 200, Lasting: true}
			if tt.expires != 0 {
				s.Expires = now.Add(tt.expires)
			}
			got := (&freshness.Requirement{Policy: &tt.policy, Tip: tt.tip}).Judge(s, clock)
			expect.Equal(t, got, tt.want, "Judge")
		})
	}
}

func TestEntryPastExpiryIsServedOnlyIfPolicyAllowsIt(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	lasting := live
	lasting.StalePastExpires = true
	for name, tt := range map[string]struct {
		policy freshness.Policy
		stamp  freshness.Stamp
		keep   time.Duration // in the shared store
		state  freshness.State
	}{
		"no expiry":                         {live, freshness.Stamp{Height: 100}, live.Keep, freshness.Fresh},
		"past the expiry":                   {live, freshness.Stamp{Height: 100, Expires: now, Lasting: true}, 0, freshness.Expired},
		"before the expiry":                 {live, freshness.Stamp{Height: 100, Expires: now.Add(time.Minute)}, time.Minute, freshness.Fresh},
		"an expiry beyond Keep":             {live, freshness.Stamp{Height: 100, Expires: now.Add(time.Hour * 5)}, live.Keep, freshness.Fresh},
		"StalePastExpires, not lasting":     {lasting, freshness.Stamp{Height: 100, Expires: now}, 0, freshness.Expired},
		"StalePastExpires, past the expiry": {lasting, freshness.Stamp{Height: 100, Expires: now, Lasting: true}, live.Keep, freshness.Stale},
	} {
		s := &tt.stamp
		s.ReadAt = now
		r := freshness.Requirement{Policy: &tt.policy, Tip: 100}
		expect.Equal(t, tt.policy.KeepFor(s, clock), tt.keep, "%s: KeepFor", name)
		expect.Equal(t, r.Judge(s, clock), tt.state, "%s: Judge", name)
		expect.Equal(t, r.StandsIn(s, clock), tt.state != freshness.Expired, "%s: StandsIn", name)
	}
}

func TestQueryLimitsHeights(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	for name, tt := range map[string]struct {
		minHeight, maxHeight, height int64
		immutable                    bool
		believed, served             bool
	}{
		"no limits":                      {0, 0, 100, false, true, true},
		"at MinHeight":                   {100, 0, 100, false, true, true},
		"below MinHeight":                {101, 0, 100, false, true, false},
		"below MinHeight, but immutable": {101, 0, 100, true, true, true},
		"at MaxHeight":                   {0, 100, 100, false, true, true},
		"above MaxHeight":                {0, 99, 100, true, false, false},
		"an unknown height":              {0, 99, 0, false, true, true},
	} {
		r := freshness.Requirement{Policy: &freshness.Policy{Immutable: tt.immutable, Fresh: time.Minute}, MinHeight: tt.minHeight, MaxHeight: tt.maxHeight}
		s, older := &freshness.Stamp{Height: tt.height, ReadAt: now}, &freshness.Stamp{Height: 90, ReadAt: now.Add(-time.Minute)}
		expect.Equal(t, r.Believes(tt.height), tt.believed, "%s: Believes", name)
		expect.Equal(t, r.Replaces(older, s), !tt.believed, "%s: Replaces by an older stamp", name)
		expect.Equal(t, r.Judge(s, clock) == freshness.Fresh, tt.served, "%s: fresh", name)
		expect.Equal(t, r.StandsIn(s, clock), tt.served, "%s: StandsIn", name)
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
		"lower than the cached entry": {120, 130, true},
		"at the same height":          {130, 130, false},
		"higher":                      {131, 130, false},
		"lower, but fresh":            {149, 150, false},
		"lower than a cached entry below the minimum": {90, 99, false},
		"at an unknown height":                        {0, 130, false},
	} {
		expect.Equal(t, r.FallsBehind(at(tt.answer), at(tt.cached), clock), tt.want, "FallsBehind of an answer that is %s", name)
	}
}

func TestNotFoundEntryIsNotImmutable(t *testing.T) {
	policy := freshness.Policy{Immutable: true, ImmutableIfOK: true}
	for status, want := range map[int]bool{200: true, 404: false} {
		expect.Equal(t, policy.IsImmutable(&freshness.Stamp{Status: status}), want, "IsImmutable of status %d", status)
	}
}

func TestNewerComparesHeightsAndThenTimes(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		height, old int64
		later       time.Duration
		want        bool
	}{
		"higher, read earlier":                     {101, 100, -time.Second, true},
		"lower, read later":                        {99, 100, time.Second, false},
		"same height, read later":                  {100, 100, time.Second, true},
		"same height, read earlier":                {100, 100, -time.Second, false},
		"same height, same time":                   {100, 100, 0, true},
		"unknown height, read later":               {0, 100, time.Second, true},
		"unknown height, read earlier":             {0, 100, -time.Second, false},
		"known height after unknown, read earlier": {100, 0, -time.Second, false},
		"unknown height after unknown, read later": {0, 0, time.Second, true},
	} {
		s, old := &freshness.Stamp{Height: tt.height, ReadAt: now.Add(tt.later)}, &freshness.Stamp{Height: tt.old, ReadAt: now}
		expect.Equal(t, freshness.Newer(s, old), tt.want, "Newer of %s", name)
	}
}
