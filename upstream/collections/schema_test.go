package collections_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
)

// released is the version of the schema that the release before this one knows. It
// refuses a database with a greater one, and runs scripts of its own on one with a
// smaller one. It may rise with a contraction, a release after the program has ceased
// to need what that removes.
const released = 3

func TestTheReleaseBeforeOpensTheDatabaseToo(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c.db")
		load(t, open(t, "sqlite:"+path, collections.Options{}), some(3))
		var version int
		if err := shell(t, path).QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil || version != released {
			t.Errorf("version = %d, %v; want %d", version, err, released)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		url := postgresURL(t)
		load(t, open(t, url, collections.Options{}), some(3))
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var version int
		if err := conn.QueryRow(t.Context(), "SELECT COALESCE(max(version), 0) FROM collections_schema").Scan(&version); err != nil || version != released {
			t.Errorf("version = %d, %v; want %d", version, err, released)
		}
	})
}

func TestManyProcessesMigrateOnce(t *testing.T) {
	for name, newURL := range map[string]func(testing.TB) string{"sqlite": sqliteFile, "postgres": postgresURL} {
		t.Run(name, func(t *testing.T) {
			url := newURL(t)
			var opening sync.WaitGroup
			for range 6 {
				opening.Go(func() {
					s, err := drivers.Open(t.Context(), url, collections.Options{Timeout: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					if err := errors.Join(s.Ping(t.Context()), s.Close()); err != nil {
						t.Error(err)
					}
				})
			}
			opening.Wait()
		})
	}
}
