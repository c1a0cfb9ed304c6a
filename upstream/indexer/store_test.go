package indexer_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream/collections"
)

// everyStore runs a test with each database that can be had.
func everyStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, postgresURL(t)) })
}

// postgresURL returns the URL of an empty schema of the server that the
// variable names. Without one it skips.
func postgresURL(t testing.TB) string {
	t.Helper()
	const variable = "TIPCACHE_TEST_POSTGRES"
	server := os.Getenv(variable)
	if server == "" {
		t.Skip("no PostgreSQL: name a server in " + variable)
	}
	schema := "index_" + strings.ToLower(rand.Text())
	execute(t, server, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { execute(t, server, "DROP SCHEMA "+schema+" CASCADE") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String()
}

func execute(t testing.TB, url, sql string) {
	t.Helper()
	ctx := context.Background() // cleanups run after the test's context ended
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, url string) *collections.Store {
	t.Helper()
	s, err := collections.Open(t.Context(), url, collections.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// expect compares all of a store with what the oracle counted.
func expect(t *testing.T, s *collections.Store, want []collections.Collection) {
	t.Helper()
	page, err := s.List(t.Context(), collections.Query{Limit: collections.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(page.Items, func(a, b collections.Collection) int { return strings.Compare(a.Address, b.Address) })
	if diff := cmp.Diff(want, page.Items); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
