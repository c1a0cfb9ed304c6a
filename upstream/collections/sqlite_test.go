package collections_test

import (
	"context"
	"database/sql"
	"os"
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

// connect opens a database file like another program.
func connect(t *testing.T, path string) *sql.Conn {
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
	other := connect(t, path)
	run(t, other, "BEGIN IMMEDIATE")
	wantStored(t, s, some(3))

	impatient := open(t, "sqlite:"+path, collections.Options{Settings: collections.Settings{Timeout: 200 * time.Millisecond}})
	_, err := impatient.Import(t.Context(), each(some(5)))
	if busy := wantSilence(t, err, upstream.Overloaded); busy.RetryAfter <= 0 {
		t.Errorf("RetryAfter = %v, want more than 0", busy.RetryAfter)
	}
	run(t, other, "ROLLBACK")
	load(t, s, some(5))
}

// The timeout limits queries and waiting for locks, but not the creation of the file, which may be slow.
func TestTimeoutDoesNotLimitCreationOfSQLiteSchema(t *testing.T) {
	for _, url := range []string{"sqlite::memory:", sqliteFile(t)} {
		open(t, url, collections.Options{Settings: collections.Settings{Timeout: time.Nanosecond}})
	}
}

func TestSQLiteLockedExclusivelyIsOverloaded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.db")
	other := connect(t, path)
	run(t, other, "PRAGMA locking_mode = EXCLUSIVE")
	run(t, other, "CREATE TABLE t (a)")
	_, err := drivers.Open(t.Context(), "sqlite:"+path, collections.Options{Settings: collections.Settings{Timeout: 300 * time.Millisecond}})
	wantSilence(t, err, upstream.Overloaded)
}

func TestSQLiteWaitsForALockThatIsReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := open(t, "sqlite:"+path, collections.Options{})
	other := connect(t, path)
	run(t, other, "BEGIN IMMEDIATE")
	var releasing sync.WaitGroup
	releasing.Go(func() {
		time.Sleep(100 * time.Millisecond)
		_, _ = other.ExecContext(context.Background(), "ROLLBACK")
	})
	load(t, s, some(5))
	releasing.Wait()
}

func TestFileThatWasRemovedOrReplacedIsNotUsed(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "other.db")
	expect.NoError(t, os.WriteFile(other, nil, 0o600))
	for name, change := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(other, path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.db")
			s := open(t, "sqlite:"+path, collections.Options{})
			load(t, s, some(3))
			expect.NoError(t, change(path))
			_, err := s.Mark(t.Context())
			expect.Contains(t, wantSilence(t, err, upstream.Unreachable).Error(), "removed or replaced", "error")
			_, err = s.List(t.Context(), collections.Query{})
			wantSilence(t, err, upstream.Unreachable)
		})
	}
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
		_, _ = s.Import(ctx, each(some(2000)[:100])) // changes nothing, even if it succeeds
		cancel()
	}
	wantStored(t, s, some(2000))
}

func TestSQLiteIsWrittenAfterInterruptedImports(t *testing.T) {
	t.Parallel()
	url := sqliteFile(t)
	impatient := open(t, url, collections.Options{Settings: collections.Settings{Timeout: time.Nanosecond}})
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*300*time.Microsecond)
		_, _ = impatient.Import(ctx, each(some(300)))
		cancel()
	}
	load(t, impatient, some(300))
	wantStored(t, open(t, url, collections.Options{}), some(300))
}

func TestOpenRefusesUnusableURLs(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	run(t, connect(t, foreign), "CREATE TABLE collections (mine)")
	for name, url := range map[string]string{
		"no path":                    "sqlite:",
		"another program's tables":   "sqlite:" + foreign,
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
			t.Errorf("Open with %s = %v, want an error without the secret", name, err)
		}
	}
}
