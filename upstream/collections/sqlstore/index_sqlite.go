package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// What an indexer writes comes as one JSON array per table: SQLite unpacks it
// several times faster than it takes as many parameters. Blobs are in hex there.
const (
	sqliteChanges = `SELECT value->>0, value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8
FROM json_each($1) WHERE true`
	sqlitePairs   = `INSERT INTO %s SELECT unhex(substr(value, 1, %[2]d)), unhex(substr(value, %[2]d + 1)) FROM json_each($1) WHERE true ON CONFLICT DO NOTHING`
	sqliteOwnerOf = `SELECT %[1]s, collection FROM index_%[1]ss WHERE %[1]s IN (SELECT unhex(value) FROM json_each($1))`
)

func (s *sqliteStore) Mark(ctx context.Context) (m collections.Mark, err error) {
	err = whileLocked(ctx, func() error {
		m, err = scanMark(s.readers.QueryRowContext(ctx, selectMark))
		return err
	})
	return m, sqliteError(err)
}

func (s *sqliteStore) Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error) {
	var ipIDs, disputeIDs []string
	for _, ip := range ips {
		ipIDs = append(ipIDs, hex.EncodeToString(ip[:]))
	}
	for _, id := range disputes {
		disputeIDs = append(disputeIDs, hex.EncodeToString(id[:]))
	}
	found, addIP, addDispute := newOwners()
	err := s.ownersOf(ctx, "ip", ipIDs, addIP)
	if err == nil {
		err = s.ownersOf(ctx, "dispute", disputeIDs, addDispute)
	}
	return found, sqliteError(err)
}

// ownersOf looks up ids of a kind, which names the column and the table.
func (s *sqliteStore) ownersOf(ctx context.Context, kind string, ids []string, found func(id []byte, collection ledger.Address)) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return whileLocked(ctx, func() error {
		rows, err := s.readers.QueryContext(ctx, fmt.Sprintf(sqliteOwnerOf, kind), string(list)) //nolint:rowserrcheck // scanPairs checks it
		if err != nil {
			return err
		}
		defer rows.Close()
		return scanPairs(rows, found)
	})
}

// Where SQLite keeps what it needs to take a statement back, and temporary
// tables. The former is of rowsAtOnce rows at the most, written in the middle of
// every tally; the latter are whole imports.
const (
	tempInMemory = "PRAGMA temp_store = MEMORY"
	tempInFile   = "PRAGMA temp_store = FILE"
)

// rowsAtOnce is how many rows of a tally a statement writes.
const rowsAtOnce = 4096

func (s *sqliteStore) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	w, err := s.writer.Conn(ctx)
	if err != nil {
		return sqliteError(err)
	}
	defer w.Close()
	if _, err := w.ExecContext(ctx, tempInMemory); err != nil {
		return sqliteError(err)
	}
	moved := false
	waiting, cancel := s.waiting(ctx)
	defer cancel()
	err = s.write(ctx, waiting, w, func() error {
		if moved, err = advance(ctx, w, prev, t.Cursor); err != nil || !moved {
			return err
		}
		if err := insertPairs(ctx, w, "index_ips", ipPairs(t.Learned)); err != nil {
			return err
		}
		if err := insertPairs(ctx, w, "index_disputes", disputePairs(t.Learned)); err != nil {
			return err
		}
		return addChanges(ctx, w, t.Changes)
	})
	if err == nil && !moved {
		return ledger.ErrCursorMoved
	}
	return sqliteError(err)
}

// advance moves the cursor, and reports whether it was at prev.
func advance(ctx context.Context, w *sql.Conn, prev, next ledger.Cursor) (bool, error) {
	statement, args := moveCursor(prev, next, func(t time.Time) any { return t.UnixMicro() })
	result, err := w.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

func insertPairs(ctx context.Context, w *sql.Conn, table string, pairs []pair) error {
	for some := range slices.Chunk(pairs, rowsAtOnce) {
		list := []byte{'['}
		for _, p := range some {
			list = append(list, '"')
			list = hex.AppendEncode(hex.AppendEncode(list, p.id), p.collection)
			list = append(list, '"', ',')
		}
		list[len(list)-1] = ']'
		if _, err := w.ExecContext(ctx, fmt.Sprintf(sqlitePairs, table, 2*len(some[0].id)), string(list)); err != nil {
			return err
		}
	}
	return nil
}

func addChanges(ctx context.Context, w *sql.Conn, changes []ledger.Change) error {
	for some := range slices.Chunk(changes, rowsAtOnce) {
		rows := make([][9]any, len(some))
		for i, c := range some {
			rows[i] = [...]any{c.Collection.String(), c.Assets, c.Licenses, c.Raised, c.Cancelled, c.Judged, c.Resolved,
				c.First.UnixMicro(), c.Last.UnixMicro()}
		}
		list, err := json.Marshal(rows)
		if err != nil {
			return err
		}
		if _, err := w.ExecContext(ctx, fmt.Sprintf(countFormat, sqliteChanges), string(list)); err != nil {
			return err
		}
	}
	return nil
}

// lead has no lock to wait for: a file is for one process, and apply copes with
// more.
func (s *sqliteStore) Lead(ctx context.Context, work func(context.Context) error) error {
	return work(ctx)
}
