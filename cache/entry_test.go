package cache_test

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
)

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
		{"a link is not taken for the beginning of the body", cache.NewContent(200, "application/json", "bo", []byte("dy"), 1), false},
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
