package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

// connectSQLite returns the store in a database file, or in memory for :memory:. Readers in memory wait while an import merges.
// Readers of a file never wait, because it uses WAL.
func connectSQLite(path string, o collections.Options, existing bool) (*store, error) {
	if path == "" {
		return nil, errors.New("collections: sqlite: the path is missing")
	}
	dsn, err := sqliteDSN(path)
	if err != nil {
		return nil, err
	}
	if existing {
		dsn += "&mode=rw"
	}
	writer, err := sql.Open("sqlite", dsn+"&_pragma=journal_mode(WAL)&_pragma=cache_size(-65536)")
	if err != nil {
		return nil, err
	}
	readers, err := sql.Open("sqlite", dsn+"&_pragma=query_only(1)")
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	writer.SetMaxOpenConns(1) // SQLite has one writer at a time
	readers.SetMaxOpenConns(o.Connections + 1)
	readers.SetMaxIdleConns(o.Connections)
	return &store{
		dialect: sqliteDialect, engine: &sqliteEngine{path: path}, name: "sqlite:" + path, log: o.Logger, readers: readers, writer: writer, patience: o.Timeout,
	}, nil
}

// open waits for the locks of others at most for the store's patience. Creating the schema may take longer.
func (e *sqliteEngine) open(ctx context.Context, s *store) error {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err := whileLocked(waiting, func() error { return s.ready(ctx) })
	if err == nil {
		err = whileLocked(waiting, func() (err error) {
			e.anchor, err = s.readers.Conn(ctx)
			return err
		})
	}
	if err == nil {
		e.file, _ = os.Stat(e.path) // nil in memory
	}
	return err
}

// sqliteDSN returns the data source name, to which pragmas can be added. SQLite's own wait for locks is short, because it
// ignores contexts. whileLocked waits longer.
func sqliteDSN(path string) (string, error) {
	const wait = "_pragma=busy_timeout(20)"
	if path == ":memory:" {
		return "file:/" + rand.Text() + "?vfs=memdb&" + wait, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	file := url.URL{Path: filepath.ToSlash(path)}
	return "file:" + file.EscapedPath() + "?" + wait, nil
}

// whileLocked retries until the database is not locked or the context ends. If the time runs out while the database is
// locked, it returns the lock's error.
func whileLocked(ctx context.Context, try func() error) error {
	var busy error
	for {
		err := try()
		if code := sqliteCode(err); code != sqlite3.SQLITE_BUSY && code != sqlite3.SQLITE_LOCKED {
			if busy != nil && errors.Is(err, context.DeadlineExceeded) {
				return busy
			}
			return err
		}
		busy = err
		if upstream.Sleep(ctx, 5*time.Millisecond) != nil {
			return busy
		}
	}
}

type sqliteEngine struct {
	anchor *sql.Conn // idle reader, because a database in memory exists while it has a connection
	path   string
	file   os.FileInfo // the open file; nil if it is not known
}

// errReplaced is the error of a file that is no longer at its path. Open connections would continue to use it, unseen by others.
var errReplaced = errors.New("its file was removed or replaced: restart tipcache to use the one at its path")

func (e *sqliteEngine) retry(ctx context.Context, try func() error) error {
	if now, err := os.Stat(e.path); e.file != nil && (errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(now, e.file)) {
		return errReplaced
	}
	return whileLocked(ctx, try)
}

func (sqliteEngine) version(ctx context.Context, w *sql.Conn) (version int, err error) {
	err = w.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version) // stored in the file header
	return version, err
}

func (e *sqliteEngine) close() {
	if e.anchor != nil {
		_ = e.anchor.Close()
	}
}

func (sqliteEngine) beginImport(context.Context) error { return nil }

// lead uses no lock, because a file is meant for one process. Apply is safe with several.
func (sqliteEngine) lead(ctx context.Context, _ *store, work func(context.Context) error) error {
	return work(ctx)
}

func (sqliteEngine) failed(err error) error {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return collections.Busy(err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY:
		return upstream.Silence(collections.OriginName, err)
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errReplaced), errors.Is(err, context.DeadlineExceeded):
		return upstream.Silence(collections.OriginName, err)
	default:
		return collections.Unusable(err)
	}
}

// sqliteCode returns SQLite's primary result code, or 0 for other errors.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

var sqliteDialect = dialect{
	begin:      "BEGIN IMMEDIATE",
	scripts:    "sqlite",
	setVersion: fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),

	selectVersion:  "SELECT 'SQLite ' || sqlite_version()",
	selectReadOnly: "SELECT false", // a file that cannot be written has an error of its own

	list:     "json_each($1)",
	among:    "IN (%s)",
	bytes:    "unhex(%s)",
	time:     func(t time.Time) any { return t.UnixMicro() },
	timeType: "bigint",

	hinted: true,

	// Where SQLite stores temporary tables: in a file for imports, and in memory for the statement journals of tallies.
	beforeImport: "PRAGMA temp_store = FILE",
	beforeTally:  "PRAGMA temp_store = MEMORY",
	dropStaged:   "DROP TABLE IF EXISTS temp.staged",
	// Truncates the log, which has grown by the import, unless a reader needs it.
	afterImport: "PRAGMA wal_checkpoint(TRUNCATE)",
}
