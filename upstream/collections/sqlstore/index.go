package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

const (
	insertCursor = `INSERT INTO index_cursor (id, chain_id, block, hash, time, contracts, incomplete)
VALUES (1, $1, $2, $3, $4, $5, false) ON CONFLICT DO NOTHING`
	updateCursor = `UPDATE index_cursor SET chain_id = $1, block = $2, hash = $3, time = $4, contracts = $5
WHERE chain_id = $6 AND block = $7 AND hash = $8`
)

// countFormat adds the counts of rows to the table collections. The addresses of existing rows do not change.
var countFormat = `INSERT INTO collections AS old (` + columns + `) SELECT ` + columns + ` FROM %s WHERE true
ON CONFLICT (key) DO UPDATE SET
	` + sums("asset_count", "licenses_count", "raised_dispute_count", "cancelled_dispute_count", "judged_dispute_count", "resolved_dispute_count") + `
	created_at = CASE WHEN excluded.created_at < old.created_at THEN excluded.created_at ELSE old.created_at END,
	updated_at = CASE WHEN excluded.updated_at > old.updated_at THEN excluded.updated_at ELSE old.updated_at END`

// sums returns assignments that add to counters, up to ledger.MaxCount. Counters that an import set higher do not decrease.
func sums(counters ...string) string {
	var all strings.Builder
	for _, counter := range counters {
		fmt.Fprintf(&all, "%[1]s = CASE WHEN old.%[1]s > %[2]d THEN old.%[1]s WHEN old.%[1]s > %[2]d - excluded.%[1]s THEN %[2]d ELSE old.%[1]s + excluded.%[1]s END,\n\t",
			counter, int64(ledger.MaxCount))
	}
	return strings.TrimSpace(all.String())
}

func (s *store) Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (found ledger.Owners, err error) {
	found = ledger.Owners{IPs: map[ledger.Address]ledger.Address{}, Disputes: map[ledger.Hash]ledger.Address{}}
	err = s.read(ctx, func() error {
		err := s.owners(ctx, "ip", digits(ips), func(id []byte, of ledger.Address) { found.IPs[ledger.Address(id)] = of })
		if err != nil {
			return err
		}
		return s.owners(ctx, "dispute", digits(disputes), func(id []byte, of ledger.Address) { found.Disputes[ledger.Hash(id)] = of })
	})
	return found, err
}

// owners looks up ids of a kind, which names the column and the table.
func (s *store) owners(ctx context.Context, kind string, ids [][]string, found func(id []byte, collection ledger.Address)) error {
	if len(ids) == 0 {
		return nil
	}
	statement := fmt.Sprintf("SELECT %[1]s, collection FROM index_%[1]ss WHERE %[1]s ", kind) + s.inList(s.bytes)
	return s.query(ctx, statement, []any{encodeList(ids)}, func(row *sql.Rows) error {
		var id, collection []byte
		if err := row.Scan(&id, &collection); err != nil {
			return err
		}
		if len(collection) != len(ledger.Address{}) {
			return fmt.Errorf("invalid collection %[2]x of %[1]x", id, collection)
		}
		found(id, ledger.Address(collection))
		return nil
	})
}

// Apply waits for the disk. With synchronous_commit off nothing would count twice after a crash, but generations that
// readers have seen could occur again with other pages.
func (s *store) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	return s.connect(ctx, s.beforeTally, func(w *writer) {
		s.transact(ctx, w, func() {
			if t.OnlyEmpty {
				s.expectEmpty(ctx, w)
			}
			s.moveCursor(ctx, w, prev, t.Cursor)
			s.recordStep(ctx, w, prev, t)
			s.learn(ctx, w, "ip", pairs(t.Learned.IPs))
			s.learn(ctx, w, "dispute", pairs(t.Learned.Disputes))
			s.count(ctx, w, t.Changes)
		})
	})
}

// expectEmpty fails with ledger.ErrCursorMoved if the store has collections, and makes imports wait.
func (s *store) expectEmpty(ctx context.Context, w *writer) {
	var total int64
	if w.exec(ctx, s.lockRows); w.err == nil {
		w.err = w.QueryRowContext(ctx, selectTotal).Scan(&total)
	}
	if w.err == nil && total > 0 {
		w.err = ledger.ErrCursorMoved
	}
}

// moveCursor moves the cursor, which locks out other indexers until the transaction ends. It fails with
// ledger.ErrCursorMoved if the cursor is not prev.
func (s *store) moveCursor(ctx context.Context, w *writer, prev, next ledger.Cursor) {
	if w.err != nil {
		return
	}
	c := next.Contracts
	contracts := slices.Concat(c.Registry[:], c.Licensing[:], c.Disputes[:])
	statement, args := insertCursor, []any{next.Chain, next.Block, next.Hash[:], s.time(next.Time), contracts}
	if prev != (ledger.Cursor{}) {
		statement, args = updateCursor, append(args, prev.Chain, prev.Block, prev.Hash[:])
	}
	var result sql.Result
	if result, w.err = w.ExecContext(ctx, statement, args...); w.err != nil {
		return
	}
	if rows, _ := result.RowsAffected(); rows != 1 { // both drivers know it
		w.err = ledger.ErrCursorMoved
	}
}

// digits returns a list of the hex digits of ids, without 0x.
func digits[ID fmt.Stringer](ids []ID) [][]string {
	list := make([][]string, len(ids))
	for i, id := range ids {
		list[i] = []string{id.String()[2:]}
	}
	return list
}

// pairs returns a list of ids and their collections in hex digits, in the order of the indexes.
func pairs[ID interface {
	comparable
	fmt.Stringer
}](owners map[ID]ledger.Address) [][]string {
	list := make([][]string, 0, len(owners))
	for id, collection := range owners {
		list = append(list, []string{id.String()[2:], collection.String()[2:]})
	}
	slices.SortFunc(list, slices.Compare)
	return list
}

// learn stores owners. kind selects the table.
func (s *store) learn(ctx context.Context, w *writer, kind string, pairs [][]string) {
	statement := fmt.Sprintf("INSERT INTO index_%[1]ss (%[1]s, collection) SELECT %[2]s, %[3]s FROM %[4]s WHERE true ON CONFLICT DO NOTHING", kind,
		fmt.Sprintf(s.bytes, "value->>0"), fmt.Sprintf(s.bytes, "value->>1"), s.list)
	for some := range slices.Chunk(pairs, atOnce) {
		w.exec(ctx, statement, encodeList(some))
	}
}

func (s *store) count(ctx context.Context, w *writer, changes []ledger.Change) {
	if len(changes) == 0 {
		return
	}
	w.exec(ctx, s.lockRows)
	for some := range slices.Chunk(changes, atOnce) {
		rows := make([]collections.Collection, len(some))
		for i, c := range some {
			rows[i] = collections.Collection{
				Address: c.Collection.String(), AssetCount: c.Assets, LicensesCount: c.Licenses, RaisedDisputeCount: c.Raised,
				CancelledDisputeCount: c.Cancelled, JudgedDisputeCount: c.Judged, ResolvedDisputeCount: c.Resolved,
				CreatedAt: c.First, UpdatedAt: c.Last,
			}
		}
		w.exec(ctx, fmt.Sprintf(countFormat, s.collectionRows()), s.encodeCollections(rows, 0))
	}
}

const (
	selectSteps = `SELECT block, hash, from_block, from_hash, from_time FROM index_steps ORDER BY block DESC`
	insertStep  = `INSERT INTO index_steps (block, hash, from_block, from_hash, from_time) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (block) DO UPDATE SET
	hash = excluded.hash, from_block = excluded.from_block, from_hash = excluded.from_hash, from_time = excluded.from_time`
	trimSteps = `DELETE FROM index_steps WHERE block NOT IN (SELECT block FROM index_steps ORDER BY block DESC LIMIT 64)`
)

// recordStep records a move of the cursor. If anything was counted, it deletes all moves instead, because counts cannot be
// undone.
func (s *store) recordStep(ctx context.Context, w *writer, prev ledger.Cursor, t ledger.Tally) {
	if len(t.Changes)+len(t.Learned.IPs)+len(t.Learned.Disputes) > 0 || prev == (ledger.Cursor{}) {
		w.exec(ctx, "DELETE FROM index_steps")
		return
	}
	at := t.Cursor
	w.exec(ctx, insertStep, at.Block, at.Hash[:], prev.Block, prev.Hash[:], s.time(prev.Time))
	w.exec(ctx, trimSteps)
}

func (s *store) Trail(ctx context.Context, from ledger.Cursor) (trail []ledger.Cursor, err error) {
	err = s.read(ctx, func() error {
		trail = nil
		at := from
		return s.query(ctx, selectSteps, nil, func(row *sql.Rows) error {
			var block int64
			var hash, before []byte
			var when stamp
			next := from
			if err := row.Scan(&block, &hash, &next.Block, &before, &when); err != nil {
				return err
			}
			next.Time = when.Time
			copy(next.Hash[:], before)
			if block == at.Block && slices.Equal(hash, at.Hash[:]) {
				trail, at = append(trail, next), next
			}
			return nil
		})
	})
	return trail, err
}

func (s *store) MarkIncomplete(ctx context.Context) error {
	return s.connect(ctx, "", func(w *writer) { w.exec(ctx, "UPDATE index_cursor SET incomplete = true") })
}

func (s *store) StepBack(ctx context.Context, from, to ledger.Cursor) error {
	return s.connect(ctx, s.beforeTally, func(w *writer) {
		s.transact(ctx, w, func() {
			s.moveCursor(ctx, w, from, to)
			w.exec(ctx, "DELETE FROM index_steps WHERE block > $1", to.Block)
		})
	})
}
