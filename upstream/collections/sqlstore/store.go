package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// store keeps collections in a database.
type store struct {
	dialect
	engine
	name            string // for the log
	log             *slog.Logger
	readers, writer *sql.DB       // one and the same in PostgreSQL
	patience        time.Duration // the longest that opening, imports and tallies wait for the locks of others
	totals          totals
}

// An engine is how a database is connected to, waited for and asked again.
type engine interface {
	// ready waits until the schema is up to date.
	ready(ctx context.Context) error
	// again tries a read, and tries it again where that may help.
	again(ctx context.Context, try func() error) error
	// version is that of the schema, 0 where there is none.
	version(ctx context.Context, w *sql.Conn) (int, error)
	// failed turns a failure into an *upstream.Error, but for that of a context
	// which was cancelled.
	failed(err error) error
	// beside opens the store beside one, attach makes its tables known to a
	// connection under a prefix, and dropBeside removes it.
	beside(ctx context.Context, s *store) (*store, error)
	attach(ctx context.Context, s *store, w *sql.Conn) (prefix, detach string, err error)
	dropBeside(ctx context.Context, s *store) error
	// close ends what goes on in the background.
	close()

	Lead(ctx context.Context, work func(context.Context) error) error
}

func (s *store) List(ctx context.Context, q collections.Query) (page collections.Page, err error) {
	err = s.read(ctx, func() error {
		page, err = s.page(ctx, q)
		return err
	})
	return page, err
}

func (s *store) Ping(ctx context.Context) error {
	return s.read(ctx, func() error {
		return s.readers.QueryRowContext(ctx, "SELECT total FROM collections_state").Scan(new(int64))
	})
}

func (s *store) Mark(ctx context.Context) (m collections.Mark, err error) {
	err = s.read(ctx, func() error {
		m, err = scanMark(s.readers.QueryRowContext(ctx, selectMark))
		return err
	})
	return m, err
}

func (s *store) Close() error {
	s.close()
	return errors.Join(s.readers.Close(), s.writer.Close())
}

// read reads what is read by one statement.
func (s *store) read(ctx context.Context, try func() error) error {
	err := s.ready(ctx)
	if err == nil {
		err = s.again(ctx, try)
	}
	return s.failed(err)
}

// query hands the rows of an answer to scan.
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

// connect runs the statement before on a connection, and then work that writes.
func (s *store) connect(ctx context.Context, before string, work func(w *sql.Conn) error) error {
	if err := s.ready(ctx); err != nil {
		return s.failed(err)
	}
	w, err := s.writer.Conn(ctx)
	if err != nil {
		return s.failed(err)
	}
	defer w.Close()
	if err = exec(ctx, w, before); err == nil {
		err = work(w)
	}
	if errors.Is(err, ledger.ErrCursorMoved) {
		return ledger.ErrCursorMoved
	}
	return s.failed(err)
}

// transact does a piece of work in a transaction. While others hold SQLite's lock
// it waits to begin, but for no longer than patience.
func (s *store) transact(ctx context.Context, w *sql.Conn, work func() error) error {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err := whileLocked(waiting, func() error { return exec(ctx, w, s.begin) })
	if err == nil {
		err = work()
	}
	if err == nil {
		err = whileLocked(ctx, func() error { return exec(ctx, w, "COMMIT") })
	}
	if err != nil {
		cleanUp(ctx, w, "ROLLBACK") // even of BEGIN: one that was interrupted may have begun
	}
	return err
}

// cleanUp runs a statement for the next user of the connection, or closes it where
// the statement fails. The caller's context may have ended.
func cleanUp(ctx context.Context, w *sql.Conn, statement string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	if exec(ctx, w, statement) != nil {
		_ = w.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// exec runs a statement, unless it is empty. It does not begin once the context
// has ended: a connection to PostgreSQL would be given up for that.
func exec(ctx context.Context, w *sql.Conn, statement string, args ...any) error {
	if statement == "" || ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := w.ExecContext(ctx, statement, args...)
	return err
}

// inList is the condition that an expression is in the list in parameter 1. The
// argument is made of each value of the list first.
func (d *dialect) inList(value string) string {
	return fmt.Sprintf(d.among, "SELECT "+value+" FROM "+d.list)
}
