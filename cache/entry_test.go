package cache_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestConfirmRenewsEntryWithSharedContent(t *testing.T) {
	negative := entry(100, "not found")
	negative.Expires = negative.ReadAt.Add(10 * time.Second)
	later := negative.ReadAt.Add(time.Minute)

	got := negative.Confirm(130, later)

	if got.Content != negative.Content {
		t.Error("content was copied, want it shared")
	}
	if got.Height != 130 || !got.ReadAt.Equal(later) {
		t.Errorf("Height, ReadAt = %d, %v; want 130, %v", got.Height, got.ReadAt, later)
	}
	if want := later.Add(10 * time.Second); !got.Expires.Equal(want) {
		t.Errorf("Expires = %v, want %v: as long after ReadAt as before", got.Expires, want)
	}
	if e := entry(1, "x").Confirm(2, later); !e.Expires.IsZero() {
		t.Errorf("Expires of a confirmed entry without an expiry = %v, want zero", e.Expires)
	}
}

func TestETagDependsOnStatusTypeLinkAndBody(t *testing.T) {
	base := cache.NewContent(200, "application/json", "", []byte("body"), 1)
	tests := []struct {
		name  string
		other *cache.Content
		same  bool
	}{
		{"same content from another source", cache.NewContent(200, "application/json", "", []byte("body"), 2), true},
		{"another status", cache.NewContent(404, "application/json", "", []byte("body"), 1), false},
		{"another type", cache.NewContent(200, "text/plain", "", []byte("body"), 1), false},
		{"another link", cache.NewContent(200, "application/json", "</x>", []byte("body"), 1), false},
		{"another body", cache.NewContent(200, "application/json", "", []byte("bodY"), 1), false},
		{"a body split between link and body", cache.NewContent(200, "application/json", "bo", []byte("dy"), 1), false},
		{"same content after another content", cache.NewContentAfter(&cache.Entry{Content: cache.NewContent(200, "application/json", "", []byte("b"), 1)}, 200, "application/json", "", []byte("body"), 1), true},
		{"a type split between type and link", cache.NewContent(200, "application/jso", "n", []byte("body"), 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect.Equal(t, tt.other.ETag == base.ETag, tt.same, "ETags %s and %s are equal", base.ETag, tt.other.ETag)
		})
	}
}

func TestUnchangedAnswerKeepsDerivedContent(t *testing.T) {
	c := newCache(t, cache.Options{})
	before := entry(100, strings.Repeat("0123456789", 1000))
	encoded, _ := c.Encoded("a", before.Content, codings.Gzip, true, false)
	tests := []struct {
		name            string
		status          int
		typ, link, body string
		same            bool
	}{
		{"the same content", before.Status, before.Type, before.Link, string(before.Body), true},
		{"another status", 404, before.Type, before.Link, string(before.Body), false},
		{"another type", before.Status, "text/plain", before.Link, string(before.Body), false},
		{"another link", before.Status, before.Type, "</b>", string(before.Body), false},
		{"another body", before.Status, before.Type, before.Link, string(before.Body[1:]), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			after := cache.NewContentAfter(before, tt.status, tt.typ, tt.link, []byte(tt.body), before.Source+1)
			kept := after.Encodings[codings.Gzip].Load()
			if same := after.ETag == before.ETag && kept != nil && &(*kept)[0] == &encoded[0]; same != tt.same {
				t.Errorf("ETag %s after %s, gzip kept: %t; want both kept: %t", after.ETag, before.ETag, kept != nil, tt.same)
			}
			if string(after.Body) != tt.body || after.Source == before.Source {
				t.Errorf("content = %.20q from source %d, want %.20q from another source than %d", after.Body, after.Source, tt.body, before.Source)
			}
			expect.Equal(t, before.ContentIfSame(tt.status, tt.typ, tt.link, []byte(tt.body), 7) != nil, tt.same, "ContentIfSame returns a content")
		})
	}
}
