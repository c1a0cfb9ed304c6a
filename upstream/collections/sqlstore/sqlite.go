package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tipcache/tipcache/upstream/collections"
)

// sqliteStore keeps collections in one file, or in memory. In memory readers
// wait while an import merges; those of a file never do (WAL).
type sqliteStore struct {
	writer   *sql.DB       // one connection: SQLite has one writer at a time
	readers  *sql.DB       // several
	anchor   *sql.Conn     // of readers, idle: a database in memory lives as long as one connection
	patience time.Duration // the longest that opening and an import wait for the locks of others
	totals   totals
}

// OpenSQLite opens the database file at a path, and makes it if it is not there, or
// one in memory where the path is :memory:. It migrates the schema.
func OpenSQLite(ctx context.Context, path string, o collections.Options) (string, collections.Driver, error) {
	name := "sqlite:" + path
	if path == "" {
		return "", nil, errors.New("collections: sqlite: the path is missing")
	}
	dsn, err := sqliteDSN(path)
	if err != nil {
		return "", nil, fmt.Errorf("collections: %s: %w", name, err)
	}
	s := &sqliteStore{patience: o.Timeout}
	if err := s.open(ctx, dsn, o.Connections); err != nil {
		_ = s.Close()
		return "", nil, fmt.Errorf("collections: opening %s: %w", name, sqliteError(err))
	}
	return name, s, nil
}

// sqliteDSN returns the data source name, to which pragmas can be added.
// SQLite's own waiting for locks is kept short, as it looks at no context:
// whileLocked does the rest.
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

func (s *sqliteStore) open(ctx context.Context, dsn string, connections int) (err error) {
	const writing = "&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-65536)"
	if s.writer, err = sql.Open("sqlite", dsn+writing); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if s.readers, err = sql.Open("sqlite", dsn+"&_pragma=query_only(1)"); err != nil {
		return err
	}
	s.readers.SetMaxOpenConns(connections + 1)
	s.readers.SetMaxIdleConns(connections)
	waiting, cancel := s.waiting(ctx)
	defer cancel()
	if err := whileLocked(waiting, func() error { return s.migrate(ctx, waiting) }); err != nil {
		return err
	}
	return whileLocked(waiting, func() error {
		s.anchor, err = s.readers.Conn(ctx)
		return err
	})
}

// migrate brings the schema up to date. Its version, kept in the file's header,
// is read again under the lock: another process may have been faster.
func (s *sqliteStore) migrate(ctx, waiting context.Context) error {
	w, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, scripts, err := pending(ctx, w); err != nil || len(scripts) == 0 {
		return err
	}
	return s.write(ctx, waiting, w, func() error {
		version, scripts, err := pending(ctx, w)
		if err != nil {
			return err
		}
		for _, script := range scripts {
			if _, err := w.ExecContext(ctx, script); err != nil {
				return err
			}
		}
		_, err = w.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+len(scripts)))
		return err
	})
}

// pending returns the version of the schema and the scripts it lacks.
func pending(ctx context.Context, w *sql.Conn) (version int, scripts []string, err error) {
	if err = w.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, nil, err
	}
	scripts, err = migrations("sqlite", version)
	return version, scripts, err
}

// waiting ends when others have held the lock for longer than is waited for it.
func (s *sqliteStore) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.patience)
}

// write does a piece of work in a transaction, for which it waits while
// others hold the lock, until waiting ends.
func (s *sqliteStore) write(ctx, waiting context.Context, w *sql.Conn, work func() error) error {
	if err := execLocked(ctx, waiting, w, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := work()
	if err == nil {
		err = execLocked(ctx, ctx, w, "COMMIT")
	}
	if err != nil {
		// Not on the caller's context: it may be what ended the work. It fails
		// where SQLite has rolled back by itself, which serves as well.
		_, _ = w.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}

// execLocked tries a statement while the database is locked, until waiting ends.
func execLocked(ctx, waiting context.Context, w *sql.Conn, statement string) error {
	return whileLocked(waiting, func() error {
		_, err := w.ExecContext(ctx, statement)
		return err
	})
}

// whileLocked tries until the database is not locked or the context ends. Time
// that ran out in waiting for a lock is told as the lock, the better reason.
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
		select {
		case <-ctx.Done():
			return busy
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *sqliteStore) List(ctx context.Context, q collections.Query) (page collections.Page, err error) {
	err = whileLocked(ctx, func() error {
		page, err = s.read(ctx, q)
		return err
	})
	return page, sqliteError(err)
}

// read reads a page. SQLite cannot guess how many collections a range of asset
// counts holds, so they are counted first, once per generation, and the count
// decides between walking the order and sorting the range.
func (s *sqliteStore) read(ctx context.Context, q collections.Query) (collections.Page, error) {
	stmt, args := statement{Query: q}, []any(nil)
	switch {
	case len(q.Addresses) > 0:
		stmt.inKeys = "IN (SELECT value FROM json_each($1))"
		keys, err := json.Marshal(q.Keys())
		if err != nil {
			return collections.Page{}, err
		}
		args = append(args, string(keys))
	case q.Ranged():
		if err := s.count(ctx, &stmt); err != nil {
			return collections.Page{}, err
		}
	}
	rows, err := s.readers.QueryContext(ctx, stmt.sql(), args...) //nolint:rowserrcheck // scanPage checks it
	if err != nil {
		return collections.Page{}, err
	}
	defer rows.Close()
	page, err := scanPage(rows)
	if err == nil && stmt.counted {
		s.totals.put(rangeOf(q), page.Generation, page.Total)
	}
	return page, err
}

// sortable is the greatest number of rows to look up and sort for one page.
// Above it enough of the walked index matches for walking to be quicker.
const sortable = 10_000

// count finds out how many collections are within the range.
func (s *sqliteStore) count(ctx context.Context, stmt *statement) error {
	stmt.generation, stmt.total, stmt.counted = s.totals.get(rangeOf(stmt.Query))
	if !stmt.counted {
		row := s.readers.QueryRowContext(ctx, "SELECT generation, "+stmt.totalSQL("collections")+" FROM collections_state")
		if err := row.Scan(&stmt.generation, &stmt.total); err != nil {
			return err
		}
		stmt.counted = true
	}
	stmt.index = orderIndex(stmt.Query)
	if stmt.OrderBy != collections.AssetCount && stmt.total <= sortable {
		stmt.index = "collections_assets_asc"
	}
	return nil
}

func (s *sqliteStore) Ping(ctx context.Context) error {
	err := whileLocked(ctx, func() error {
		return s.readers.QueryRowContext(ctx, "SELECT total FROM collections_state").Scan(new(int64))
	})
	return sqliteError(err)
}

func (s *sqliteStore) Close() error {
	var errs []error
	if s.anchor != nil {
		errs = append(errs, s.anchor.Close())
	}
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	return errors.Join(errs...)
}
