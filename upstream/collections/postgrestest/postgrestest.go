// Package postgrestest gives tests an empty schema of a real PostgreSQL.
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

// Variable names the environment variable with the URL of a server to test
// with. Each test makes a schema of its own in that database and drops it.
const Variable = "TIPCACHE_TEST_POSTGRES"

// Schema returns the URL of an empty schema of the server that Variable names.
// Without one it skips the test.
func Schema(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Skipf("no PostgreSQL: set %s to the URL of a database to run this test", Variable)
	}
	return SchemaOf(t, server)
}

// SchemaOf returns the URL of an empty schema of the server at a URL. It is
// dropped when the test ends.
func SchemaOf(t testing.TB, server string) string {
	t.Helper()
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

// Execute runs SQL on a connection of its own.
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
