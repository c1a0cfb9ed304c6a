package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
)

// createStaged makes the table an import gathers in, in the writer's temporary
// database. The sequence may be slow, and nobody but another import waits for it.
const createStaged = `CREATE TEMP TABLE staged (n INTEGER PRIMARY KEY,
	key TEXT, address TEXT, asset_count INTEGER, licenses_count INTEGER, raised_dispute_count INTEGER,
	cancelled_dispute_count INTEGER, judged_dispute_count INTEGER, resolved_dispute_count INTEGER,
	created_at INTEGER, updated_at INTEGER)`

// lastStaged selects the last of each key. In SQLite the columns beside max()
// are those of the row that has the maximum.
const lastStaged = `SELECT ` + columns + ` FROM (SELECT max(n), * FROM staged GROUP BY key) WHERE true`

const (
	stagedColumns = 10 // without n
	stagedRows    = 64 // inserted at once
)

func (s *sqliteStore) Load(ctx context.Context, all iter.Seq2[collections.Collection, error]) error {
	w, err := s.writer.Conn(ctx)
	if err != nil {
		return sqliteError(err)
	}
	defer w.Close()
	defer func() {
		_, _ = w.ExecContext(context.WithoutCancel(ctx), "DROP TABLE IF EXISTS temp.staged")
	}()
	if _, err := w.ExecContext(ctx, tempInFile); err != nil {
		return sqliteError(err)
	}
	if err := stage(ctx, w, all); err != nil {
		return sqliteError(err)
	}
	waiting, cancel := s.waiting(ctx)
	defer cancel()
	err = s.write(ctx, waiting, w, func() error {
		_, err := w.ExecContext(ctx, fmt.Sprintf(upsertFormat, lastStaged))
		return err
	})
	if err != nil {
		return sqliteError(err)
	}
	// The log has grown by what was imported: give the space back, unless a
	// reader needs it.
	_, _ = w.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return nil
}

// stage writes the sequence to the table staged.
func stage(ctx context.Context, w *sql.Conn, all iter.Seq2[collections.Collection, error]) error {
	tx, err := w.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // without effect once committed
	if _, err := tx.ExecContext(ctx, createStaged); err != nil {
		return err
	}
	full, err := tx.PrepareContext(ctx, insertStaged(stagedRows)) //nolint:sqlclosecheck // deferred below
	if err != nil {
		return err
	}
	defer full.Close()
	args := make([]any, 0, stagedRows*stagedColumns)
	for c, err := range all {
		if err != nil {
			return err
		}
		args = append(args, c.Key(), c.Address, c.AssetCount, c.LicensesCount, c.RaisedDisputeCount, c.CancelledDisputeCount,
			c.JudgedDisputeCount, c.ResolvedDisputeCount, c.CreatedAt.UnixMicro(), c.UpdatedAt.UnixMicro())
		if len(args) < cap(args) {
			continue
		}
		if _, err := full.ExecContext(ctx, args...); err != nil {
			return err
		}
		args = args[:0]
	}
	if len(args) > 0 {
		if _, err := tx.ExecContext(ctx, insertStaged(len(args)/stagedColumns), args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// insertStaged inserts a number of rows.
func insertStaged(rows int) string {
	values := strings.Repeat(", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
	return "INSERT INTO staged (" + columns + ") VALUES " + values[2:]
}
