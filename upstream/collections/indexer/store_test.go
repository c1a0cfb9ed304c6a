package indexer_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
)

// everyStore runs a test with each database that can be had.
func everyStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, postgrestest.Schema(t)) })
}

func open(t testing.TB, url string) *collections.Store {
	t.Helper()
	s, err := drivers.Open(t.Context(), url, collections.Options{Timeout: time.Minute})
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
	return s
}

// expect compares all of a store with what the recount gives.
func expect(t *testing.T, s *collections.Store, want counted) {
	t.Helper()
	page, err := s.List(t.Context(), collections.Query{Limit: collections.MaxLimit})
	must(t, err)
	slices.SortFunc(page.Items, func(a, b collections.Collection) int { return strings.Compare(a.Address, b.Address) })
	if diff := cmp.Diff(want.collections, page.Items); diff != "" {
		t.Errorf("collections (-want +got)\n%s", diff)
	}
	owners, err := s.Owners(t.Context(), want.ips, want.disputes)
	if diff := cmp.Diff(want.owners, owners); err != nil || diff != "" {
		t.Errorf("%v, whose the ids are (-want +got)\n%s", err, diff)
	}
}
