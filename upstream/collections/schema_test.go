package collections_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// database is a fresh one, in which a test runs statements of its own.
type database struct {
	url     string
	execute func(t *testing.T, statement string)
	version string // a statement that sets the version of the schema, its verb
}

func databases(t *testing.T, test func(t *testing.T, d database)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c.db")
		test(t, database{"sqlite:" + path, func(t *testing.T, statement string) { run(t, shell(t, path), statement) }, "PRAGMA user_version = %d"})
	})
	t.Run("postgres", func(t *testing.T) {
		url := postgresURL(t)
		test(t, database{url, func(t *testing.T, statement string) { postgrestest.Execute(t, url, statement) }, "UPDATE collections_schema SET version = %d"})
	})
}

func TestOtherVersionsOfTheSchemaAreRefused(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]string{4: "tipcache index", 999: "upgrade tipcache"} {
		databases(t, func(t *testing.T, d database) {
			s := expect.Value(drivers.Open(t.Context(), d.url, collections.Options{}))(t)
			load(t, s, some(3))
			expect.NoError(t, s.Close())
			d.execute(t, fmt.Sprintf(d.version, version))
			_, opening := drivers.Open(t.Context(), d.url, collections.Options{})
			_, _, checking := drivers.Check(t.Context(), d.url, collections.Options{})
			for name, err := range map[string]error{"Open": opening, "Check": checking} {
				if !errors.Is(err, collections.ErrSchemaVersion) || !strings.Contains(err.Error(), fmt.Sprint("version ", version)) ||
					!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s with version %d: error = %v, want ErrSchemaVersion with %q", name, version, err, want)
				}
			}
			d.execute(t, fmt.Sprintf(d.version, 5))
			wantStored(t, open(t, d.url, collections.Options{}), some(3)) // the refusals changed nothing
		})
	}
}

func TestSchemaIsCreatedCompletelyOrNotAtAll(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, d database) {
		d.execute(t, "CREATE TABLE index_steps (a integer)")
		if s, err := drivers.Open(t.Context(), d.url, collections.Options{}); err == nil {
			_ = s.Close()
			t.Fatal("opened a database with a foreign table index_steps, want an error")
		}
		d.execute(t, "DROP TABLE index_steps")
		load(t, open(t, d.url, collections.Options{}), some(3))
	})
}

func TestManyProcessesCreateOneSchema(t *testing.T) {
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
