package indexer_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// testEachStore runs a test with each database.
func testEachStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, postgrestest.Schema(t)) })
}

func open(t testing.TB, url string) *collections.Store {
	t.Helper()
	s := expect.Value(drivers.Open(t.Context(), url, collections.Options{Settings: collections.Settings{Timeout: time.Minute}}))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
	return s
}

func openMemory(t testing.TB) *collections.Store {
	t.Helper()
	return open(t, "sqlite::memory:")
}

// checkStore compares the whole content of a store with want.
func checkStore(t *testing.T, s *collections.Store, want counted) {
	t.Helper()
	page := expect.Value(s.List(t.Context(), collections.Query{Limit: collections.MaxLimit}))(t)
	slices.SortFunc(page.Items, func(a, b collections.Collection) int { return strings.Compare(a.Address, b.Address) })
	expect.NoDiff(t, page.Items, want.collections, "collections")
	owners := expect.Value(s.Owners(t.Context(), want.ips, want.disputes))(t)
	expect.NoDiff(t, owners, want.owners, "owners of the ids")
}
