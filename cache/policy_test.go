package cache_test

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
)

func TestPolicyState(t *testing.T) {
	params := cache.Policy{
		FreshBlocks: 50, StaleBlocks: 500, ErrorBlocks: 5000,
		Fresh: 100 * time.Second, Stale: 1000 * time.Second, StaleIfError: 10_000 * time.Second,
	}
	pinned := cache.Policy{Immutable: true}
	lasting := live
	lasting.PastExpiry = true
	tests := []struct {
		name    string
		policy  cache.Policy
		height  int64
		age     time.Duration
		expires time.Duration // from now; 0 = never
		tip     int64
		want    cache.State
	}{
		{"live, read at the tip, is fresh", live, 100, 0, 0, 100, cache.Fresh},
		{"live, one block behind, is fresh", live, 100, 0, 0, 101, cache.Fresh},
		{"live, two blocks behind, is stale", live, 100, 0, 0, 102, cache.Stale},
		{"live, as far behind as allowed, is stale", live, 100, 0, 0, 110, cache.Stale},
		{"live, farther behind, is for errors", live, 100, 0, 0, 111, cache.StaleIfError},
		{"live, as far behind as errors allow, is for errors", live, 100, time.Hour, 0, 200, cache.StaleIfError},
		{"live, farther behind than errors allow, is gone", live, 100, 0, 0, 201, cache.Expired},
		{"live, for errors by blocks but too old by the clock, is gone", live, 100, time.Hour + 1, 0, 111, cache.Expired},
		{"live, read ahead of this replica's tip, is fresh", live, 105, 0, 0, 100, cache.Fresh},
		{"live stays fresh while the chain stands still", live, 100, 24 * time.Hour, 0, 100, cache.Fresh},

		{"params serve for many blocks", params, 100, time.Hour, 0, 150, cache.Fresh},
		{"params get stale", params, 100, 0, 0, 151, cache.Stale},
		{"params get old", params, 100, 0, 0, 601, cache.StaleIfError},
		{"params get lost", params, 100, 0, 0, 5101, cache.Expired},

		{"pinned is fresh at any tip", pinned, 7, 24 * time.Hour, 0, 1_000_000, cache.Fresh},
		{"pinned is fresh without a tip", pinned, 7, 24 * time.Hour, 0, 0, cache.Fresh},
		{"pinned but expired is gone", pinned, 7, time.Minute, -1, 100, cache.Expired},

		{"without a tip seconds count: fresh", live, 100, 2 * time.Second, 0, 0, cache.Fresh},
		{"without a tip seconds count: stale", live, 100, 20 * time.Second, 0, 0, cache.Stale},
		{"without a tip seconds count: for errors", live, 100, time.Hour, 0, 0, cache.StaleIfError},
		{"without a tip seconds count: gone", live, 100, time.Hour + 1, 0, 0, cache.Expired},
		{"of unknown height, without a tip, is fresh by seconds", live, 0, 0, 0, 0, cache.Fresh},
		{"of unknown height is for errors at a tip", live, 0, 0, 0, 100, cache.StaleIfError},
		{"of unknown height stays for errors at a tip", live, 0, 21 * time.Second, 0, 100, cache.StaleIfError},
		{"of unknown height gets lost by seconds at a tip", live, 0, 2 * time.Hour, 0, 100, cache.Expired},
		{"read by a clock ahead of ours is fresh", live, 0, -time.Minute, 0, 0, cache.Fresh},

		{"an answer with a life of its own serves until then", live, 100, 0, time.Second, 100, cache.Fresh},
		{"an answer with a life of its own ends with it, at the tip or not", live, 100, 0, -1, 100, cache.Expired},
		{"one that may live on is stale from then on", lasting, 100, 0, -1, 100, cache.Stale},
		{"one that may live on is for errors as others are", lasting, 100, 0, -1, 111, cache.StaleIfError},
		{"one that may live on is for errors in seconds, too", lasting, 0, time.Hour, -1, 0, cache.StaleIfError},
		{"one that may live on is gone in the end", lasting, 100, 0, -1, 201, cache.Expired},
		{"the zero policy serves at the very block", cache.Policy{}, 100, time.Hour, 0, 100, cache.Fresh},
		{"the zero policy serves at no other block", cache.Policy{}, 100, 0, 0, 101, cache.Expired},
		{"the zero policy serves for no time", cache.Policy{}, 0, 1, 0, 0, cache.Expired},
	}
	now := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := entry(tt.height, "x")
			e.ReadAt, e.Source = now.Add(-tt.age), 1
			if tt.expires != 0 {
				e.Expires = now.Add(tt.expires)
			}
			if got := tt.policy.State(e, tt.tip, now); got != tt.want {
				t.Errorf("state %d, want %d", got, tt.want)
			}
		})
	}
}

func TestWhatSaysNothingBeyondItsExpiryDoesNotLiveOn(t *testing.T) {
	policy, now := live, time.Now()
	policy.PastExpiry = true
	failure := entry(100, "the node failed")
	failure.Expires = now
	if got := policy.State(failure, 100, now); got != cache.Expired {
		t.Errorf("state %v", got)
	}
}

func TestConfirm(t *testing.T) {
	negative := entry(100, "not found")
	negative.Expires = negative.ReadAt.Add(10 * time.Second)
	later := negative.ReadAt.Add(time.Minute)

	got := negative.Confirm(130, later)

	if got.Content != negative.Content {
		t.Error("the content was copied")
	}
	if got.Height != 130 || !got.ReadAt.Equal(later) {
		t.Errorf("holds at %d, %v; want 130, %v", got.Height, got.ReadAt, later)
	}
	if want := later.Add(10 * time.Second); !got.Expires.Equal(want) {
		t.Errorf("expires %v, want as long after the reading as before: %v", got.Expires, want)
	}
	if e := entry(1, "x").Confirm(2, later); !e.Expires.IsZero() {
		t.Errorf("an entry without an expiry got one: %v", e.Expires)
	}
}

func TestETag(t *testing.T) {
	base := cache.NewContent(200, "application/json", "", []byte("body"), 1)
	tests := []struct {
		name  string
		other *cache.Content
		same  bool
	}{
		{"the same content has the same tag, whatever it was made from", cache.NewContent(200, "application/json", "", []byte("body"), 2), true},
		{"another status is another content", cache.NewContent(404, "application/json", "", []byte("body"), 1), false},
		{"another type is another content", cache.NewContent(200, "text/plain", "", []byte("body"), 1), false},
		{"another link is another content", cache.NewContent(200, "application/json", "</x>", []byte("body"), 1), false},
		{"another body is another content", cache.NewContent(200, "application/json", "", []byte("bodY"), 1), false},
		{"a part is not taken for the beginning of the next", cache.NewContent(200, "application/jso", "n", []byte("body"), 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.other.ETag == base.ETag; got != tt.same {
				t.Errorf("tags %s and %s", base.ETag, tt.other.ETag)
			}
		})
	}
}
