package collections_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/expect"
)

// shell opens the file as any other program would.
func shell(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db := expect.Value(sql.Open("sqlite", path))(t)
	conn := expect.Value(db.Conn(t.Context()))(t)
	t.Cleanup(func() { conn.Close(); db.Close() })
	return conn
}

func run(t *testing.T, conn *sql.Conn, statement string) {
	t.Helper()
	if _, err := conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestSQLiteIsReadableWhileLockedByWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.db")
	s := open(t, "sqlite:"+path, collections.Options{})
	load(t, s, some(3))
	other := shell(t, path)
	run(t, other, "BEGIN IMMEDIATE")
	wantStored(t, s, some(3))

	hasty := open(t, "sqlite:"+path, collections.Options{Timeout: 200 * time.Millisecond})
	_, err := hasty.Import(t.Context(), each(some(5)))
	if busy := silent(t, err, upstream.Overloaded); busy.RetryAfter <= 0 {
		t.Error("no RetryAfter")
	}
	run(t, other, "ROLLBACK")
	load(t, s, some(5))
}

// The time is for questions, and for the locks of others: a machine that needs
// longer to create the file opens it all the same.
func TestSQLiteIsOpenedHoweverLongItsSchemaTakes(t *testing.T) {
	for _, url := range []string{"sqlite::memory:", sqliteFile(t)} {
		open(t, url, collections.Options{Timeout: time.Nanosecond})
	}
}

func TestSQLiteLockedExclusivelyIsOverloaded(t *testing.T) {
	t.Parallel() // it waits for the lock in vain
	path := filepath.Join(t.TempDir(), "c.db")
	other := shell(t, path)
	run(t, other, "PRAGMA locking_mode = EXCLUSIVE")
	run(t, other, "CREATE TABLE t (a)")
	_, err := drivers.Open(t.Context(), "sqlite:"+path, collections.Options{Timeout: 300 * time.Millisecond})
	silent(t, err, upstream.Overloaded)
}

func TestSQLiteWaitsForALockThatIsReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := open(t, "sqlite:"+path, collections.Options{})
	other := shell(t, path)
	run(t, other, "BEGIN IMMEDIATE")
	var releasing sync.WaitGroup
	releasing.Go(func() {
		time.Sleep(100 * time.Millisecond)
		_, _ = other.ExecContext(context.Background(), "ROLLBACK")
	})
	load(t, s, some(5))
	releasing.Wait()
}

func TestSQLiteKeepsItsCollections(t *testing.T) {
	url := sqliteFile(t)
	first := expect.Value(drivers.Open(t.Context(), url, collections.Options{}))(t)
	load(t, first, some(50))
	generation := list(t, first, collections.Query{}).Generation
	expect.NoError(t, first.Close())
	second := open(t, url, collections.Options{})
	wantStored(t, second, some(50))
	expect.Equal(t, list(t, second, collections.Query{}).Generation, generation, "generation")
}

func TestSQLiteInMemoryIsOnePerStore(t *testing.T) {
	first := open(t, "sqlite::memory:", collections.Options{})
	second := open(t, "sqlite::memory:", collections.Options{})
	load(t, first, some(5))
	wantStored(t, first, some(5))
	wantStored(t, second, nil)
}

func TestSQLiteInMemorySurvivesInterruptedReaders(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite::memory:", collections.Options{Connections: 1})
	load(t, s, some(2000))
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		_, _ = s.List(ctx, collections.Query{Offset: 1900})
		_, _ = s.Import(ctx, each(some(2000)[:100])) // in time or not, it changes nothing
		cancel()
	}
	wantStored(t, s, some(2000))
}

func TestSQLiteIsWrittenAfterInterruptedImports(t *testing.T) {
	t.Parallel()
	url := sqliteFile(t)
	hasty := open(t, url, collections.Options{Timeout: time.Nanosecond})
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*300*time.Microsecond)
		_, _ = hasty.Import(ctx, each(some(300)))
		cancel()
	}
	load(t, hasty, some(300))
	wantStored(t, open(t, url, collections.Options{}), some(300))
}

func TestSQLiteChangesByOthersMoveGeneration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := open(t, "sqlite:"+path, collections.Options{})
	load(t, s, some(10))
	before := list(t, s, collections.Query{})
	other := shell(t, path)
	run(t, other, "DELETE FROM collections WHERE key IN (SELECT key FROM collections LIMIT 3)")
	run(t, other, "UPDATE collections SET asset_count = 5")
	after := list(t, s, collections.Query{})
	if after.Total != 7 || after.Generation <= before.Generation {
		t.Errorf("total %d, generation %d after %d; want total 7", after.Total, after.Generation, before.Generation)
	}
}

func TestFailedSQLiteImportKeepsForeignTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := open(t, "sqlite:"+path, collections.Options{})
	other := shell(t, path)
	run(t, other, "CREATE TABLE staged (a)")
	run(t, other, "DROP TABLE collections")
	if _, err := s.Import(t.Context(), each(some(3))); err == nil {
		t.Error("import without the table collections: error = nil, want one")
	}
	run(t, other, "SELECT a FROM staged")
}

func TestOpenRefusesUnusableURLs(t *testing.T) {
	noDatabase := filepath.Join(t.TempDir(), "text")
	run(t, shell(t, noDatabase+".db"), "CREATE TABLE collections (mine)")
	for name, url := range map[string]string{
		"no scheme":                  "collections.db",
		"an unknown scheme":          "mysql://user:secret@host/db",
		"no path":                    "sqlite:",
		"a directory that is not":    "sqlite:" + filepath.Join(t.TempDir(), "none", "c.db"),
		"another program's tables":   "sqlite:" + noDatabase + ".db",
		"a malformed postgres URL":   "postgres://user:secret#x@host:port/db",
		"an http URL with a user":    "https://user:secret@host/api/v4",
		"an http URL with a query":   "https://host/api/v4?key=secret",
		"an http URL without host":   "https:///secret",
		"a malformed http URL":       "http://user:secret%zz@host/",
		"an unknown postgres option": "postgres://user:secret@host/db?sslmode=perhaps",
	} {
		s, err := drivers.Open(t.Context(), url, collections.Options{})
		if err == nil {
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}
