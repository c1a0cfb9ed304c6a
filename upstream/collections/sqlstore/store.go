package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

type store struct {
	dialect
	engine
	name            string // for the log
	log             *slog.Logger
	readers, writer *sql.DB       // the same in PostgreSQL
	patience        time.Duration // how long opening, imports and tallies wait for locks
	totals          totals
	checked         atomic.Bool // the schema was found once
}

// An engine contains the differences of the databases apart from SQL.
type engine interface {
	// open waits until the schema exists, or until it is known that the server does not respond.
	open(ctx context.Context, s *store) error
	// retry calls try, which reads, again if that may help.
	retry(ctx context.Context, try func() error) error
	// version returns the version of the schema, or 0 if there is none.
	version(ctx context.Context, w *sql.Conn) (int, error)
	// failed converts an error to an *upstream.Error, except context.Canceled.
	failed(err error) error
	// shadow opens the shadow store, which may be non-nil even with an error. attach makes its tables available to a
	// connection under a prefix, and dropShadow removes it.
	shadow(ctx context.Context, s *store) (*store, error)
	attach(ctx context.Context, s *store, w *sql.Conn) (prefix, detach string, err error)
	dropShadow(ctx context.Context, s *store) error
	// close releases the connections that it holds.
	close()
	// beginImport refuses connections through which the store cannot import.
	beginImport(ctx context.Context) error
	// lead calls work while holding the lock of the database, if it has one.
	lead(ctx context.Context, s *store, work func(context.Context) error) error
}

// A dialect is the SQL in which the databases differ: parts of statements and whole statements. Empty statements are skipped.
type dialect struct {
	begin      string // begins a transaction that writes
	lockSchema string // keeps other processes from changing the schema until the transaction ends
	lockRows   string // makes other imports and tallies wait, to avoid deadlocks
	scripts    string // begins the names of the scripts
	setVersion string // sets the version of the schema to schemaVersion

	selectVersion  string // selects the name and version of the database
	selectReadOnly string // selects whether the connection cannot write

	list     string              // a table of one column, value: the JSON arrays in the JSON array in parameter 1
	among    string              // the condition that an expression is in the result of a query, the verb
	bytes    string              // decodes an expression in hex, the verb
	time     func(time.Time) any // returns a time as a parameter, also as JSON
	timeType string              // the type of times

	planned []any // precedes the parameters of a page
	hinted  bool  // statements name the index to use

	beforeImport, afterImport, beforeTally string // outside transactions
	dropStaged                             string // drops the temporary table of an import
}

// Open opens the database at a URL and creates its schema. If a PostgreSQL server does not respond, the first successful query
// creates the schema. Permanent problems are errors, which contain no credentials. A refused password and a missing database
// are not permanent: the server may soon accept them.
func Open(ctx context.Context, url string, o collections.Options) (string, collections.Driver, error) {
	s, err := connect(ctx, url, o, false)
	if err != nil {
		return "", nil, err
	}
	if err := s.open(ctx, s); err != nil {
		_ = s.Close()
		return "", nil, fmt.Errorf("collections: open %s: %w", s.name, s.failed(err))
	}
	return s.name, s, nil
}

const selectTotal = "SELECT total FROM collections_state"

// connect returns a store that has not connected yet. If existing is true, it creates no database file.
func connect(ctx context.Context, url string, o collections.Options, existing bool) (*store, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return connectSQLite(path, o, existing)
	}
	return connectPostgres(ctx, url, o)
}

func (s *store) Lead(ctx context.Context, work func(context.Context) error) error {
	if err := s.ready(ctx); err != nil {
		return s.failed(err)
	}
	return s.lead(ctx, s, work)
}

func (s *store) Ping(ctx context.Context) error {
	return s.read(ctx, func() error {
		return s.readers.QueryRowContext(ctx, selectTotal).Scan(new(int64))
	})
}

const selectMark = `SELECT s.store, s.generation, s.revision, s.total, COALESCE(c.chain_id, 0), COALESCE(c.block, 0), c.hash, c.time, c.contracts, COALESCE(c.incomplete, false)
FROM collections_state s LEFT JOIN index_cursor c ON true`

func (s *store) Mark(ctx context.Context) (m collections.Mark, err error) {
	var hash, contracts []byte
	var at stamp
	err = s.read(ctx, func() error {
		row := s.readers.QueryRowContext(ctx, selectMark)
		return row.Scan(&m.Store, &m.Generation, &m.Revision, &m.Total, &m.Cursor.Chain, &m.Cursor.Block, &hash, &at, &contracts, &m.Cursor.Incomplete)
	})
	if err != nil {
		return collections.Mark{}, err
	}
	copy(m.Cursor.Hash[:], hash)
	m.Cursor.Time = at.Time
	c := &m.Cursor.Contracts
	for _, to := range []*ledger.Address{&c.Registry, &c.Licensing, &c.Disputes} {
		contracts = contracts[copy(to[:], contracts):] // empty without a cursor
	}
	return m, nil
}

func (s *store) Close() error {
	s.close()
	return errors.Join(s.readers.Close(), s.writer.Close())
}

// read calls try after the schema exists. try may be called again, so it must reset its results.
func (s *store) read(ctx context.Context, try func() error) error {
	err := s.ready(ctx)
	if err == nil {
		err = s.retry(ctx, try)
	}
	return s.result(err)
}

// result converts an error. After an unexpected one the next call checks the schema, which may have been dropped.
func (s *store) result(err error) error {
	err = s.failed(err)
	if upstream.KindOf(err) == upstream.BadAnswer {
		s.checked.Store(false)
	}
	return err
}

// query calls scan for each result row.
func (s *store) query(ctx context.Context, statement string, args []any, scan func(*sql.Rows) error) error {
	rows, err := s.readers.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A writer is a connection for writing. After an error it executes nothing more.
type writer struct {
	*sql.Conn
	err error
}

// exec executes a statement unless it is empty.
func (w *writer) exec(ctx context.Context, statement string, args ...any) {
	if w.err == nil && statement != "" {
		w.err = exec(ctx, w.Conn, statement, args...)
	}
}

// connect runs the statement before, and then work, on a connection for writing.
func (s *store) connect(ctx context.Context, before string, work func(w *writer)) error {
	if err := s.ready(ctx); err != nil {
		return s.failed(err)
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return s.failed(err)
	}
	defer conn.Close()
	w := &writer{Conn: conn}
	if w.exec(ctx, before); w.err == nil {
		work(w)
	}
	if errors.Is(w.err, ledger.ErrCursorMoved) {
		return ledger.ErrCursorMoved
	}
	return s.result(w.err)
}

// transact runs work in a transaction. If SQLite is locked, it waits to begin for at most patience.
func (s *store) transact(ctx context.Context, w *writer, work func()) {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	w.err = whileLocked(waiting, func() error { return exec(ctx, w.Conn, s.begin) })
	if w.err == nil {
		work()
	}
	if w.err == nil {
		w.err = whileLocked(ctx, func() error { return exec(ctx, w.Conn, "COMMIT") })
	}
	if w.err != nil {
		cleanUp(ctx, w.Conn, "ROLLBACK") // even if BEGIN failed, as it may have been interrupted
	}
}

// cleanUp runs a statement that prepares the connection for reuse. If it fails, cleanUp closes the connection. The caller's
// context may have ended.
func cleanUp(ctx context.Context, w *sql.Conn, statement string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	if statement != "" && exec(ctx, w, statement) != nil {
		_ = w.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// exec executes a statement. It does not begin after the context has ended, because this would close the connection to
// PostgreSQL.
func exec(ctx context.Context, w *sql.Conn, statement string, args ...any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := w.ExecContext(ctx, statement, args...)
	return err
}

// inList returns the condition that an expression is in the list in parameter 1, whose items are mapped by the verb of format.
func (d *dialect) inList(format string) string {
	return fmt.Sprintf(d.among, "SELECT "+fmt.Sprintf(format, "value->>0")+" FROM "+d.list)
}

// atOnce is the maximum number of items in a list.
const atOnce = 4096

// encodeList returns parameter 1 of the table dialect.list.
func encodeList[T any](rows [][]T) string {
	list, _ := json.Marshal(rows) // strings, numbers and times always encode
	return string(list)
}

// collectionRows returns a table of collections in parameter 1, with their columns and their position n.
func (d *dialect) collectionRows() string {
	return fmt.Sprintf(`(SELECT value->>0 AS key, value->>1 AS address,
	CAST(value->>2 AS bigint) AS asset_count, CAST(value->>3 AS bigint) AS licenses_count,
	CAST(value->>4 AS bigint) AS raised_dispute_count, CAST(value->>5 AS bigint) AS cancelled_dispute_count,
	CAST(value->>6 AS bigint) AS judged_dispute_count, CAST(value->>7 AS bigint) AS resolved_dispute_count,
	CAST(value->>8 AS %[1]s) AS created_at, CAST(value->>9 AS %[1]s) AS updated_at, CAST(value->>10 AS bigint) AS n
	FROM %[2]s) AS given`, d.timeType, d.list)
}

// encodeCollections returns the parameter of collectionRows. n is the position of the first collection.
func (d *dialect) encodeCollections(some []collections.Collection, n int) string {
	rows := make([][]any, len(some))
	for i := range some {
		c := &some[i]
		rows[i] = []any{c.Key(), c.Address, c.AssetCount, c.LicensesCount, c.RaisedDisputeCount, c.CancelledDisputeCount,
			c.JudgedDisputeCount, c.ResolvedDisputeCount, d.time(c.CreatedAt), d.time(c.UpdatedAt), n + i}
	}
	return encodeList(rows)
}

// A stamp scans a time: a timestamp, microseconds since 1970, or NULL.
type stamp struct{ time.Time }

func (s *stamp) Scan(value any) error {
	switch value := value.(type) {
	case nil:
	case int64:
		s.Time = time.UnixMicro(value).UTC()
	case time.Time:
		s.Time = value.UTC()
	default:
		return fmt.Errorf("unsupported type %T of a time", value)
	}
	return nil
}

// The columns of the table collections, and those without the key.
const (
	columns = `key, ` + values
	values  = `address, asset_count, licenses_count, raised_dispute_count, cancelled_dispute_count, judged_dispute_count, resolved_dispute_count, created_at, updated_at`
)

// valuesOf returns the values of a row of a table.
func valuesOf(table string) string {
	return "(" + table + "." + strings.ReplaceAll(values, ", ", ", "+table+".") + ")"
}
