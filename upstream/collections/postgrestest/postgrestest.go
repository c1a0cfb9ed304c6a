// Package postgrestest creates empty schemas in a PostgreSQL server for tests.
package postgrestest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Variable is the environment variable with the URL of a database for tests.
const Variable = "TIPCACHE_TEST_POSTGRES"

// Schema creates an empty schema in the database of Variable and returns its URL. The schema is dropped when the test ends.
// Schema skips the test if Variable is not set.
func Schema(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Skipf("no PostgreSQL: set %s to the URL of a database to run this test", Variable)
	}
	schema := "test_" + strings.ToLower(rand.Text())
	Execute(t, server, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { Execute(t, server, "DROP SCHEMA "+schema+" CASCADE") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String()
}

// Execute runs SQL on a new connection.
func Execute(t testing.TB, server, sql string) {
	t.Helper()
	ctx := context.Background() // cleanups run after the test's context ended
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}
