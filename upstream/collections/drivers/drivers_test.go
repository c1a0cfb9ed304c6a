package drivers_test

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUnknownStoreURLIsRefused(t *testing.T) {
	for _, url := range []string{"", "mysql://user:secret@h/db", "/var/lib/secret.db", "SQLITE:secret.db"} {
		_, err := drivers.Open(t.Context(), url, collections.Options{})
		if err == nil || !strings.Contains(err.Error(), "sqlite:PATH") || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v, want an error with sqlite:PATH and without the secret", url, err)
		}
	}
}

func TestOpenReturnsAStoreOrAnError(t *testing.T) {
	s, err := drivers.Open(t.Context(), "sqlite::memory:", collections.Options{})
	if err != nil || s == nil {
		t.Fatalf("Open = %v, %v; want a store", s, err)
	}
	if page, err := s.List(t.Context(), collections.Query{Limit: 1}); err != nil || page.Total != 0 {
		t.Errorf("List = %+v, %v; want an empty page", page, err)
	}
	expect.NoError(t, s.Close())
	if s, err := drivers.Open(t.Context(), "sqlite:"+t.TempDir()+"/missing/c.db", collections.Options{}); err == nil || s != nil {
		t.Errorf("Open in a missing folder = %v, %v; want an error", s, err)
	}
}
