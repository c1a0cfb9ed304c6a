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
	selectMark = `SELECT s.generation, s.total, COALESCE(c.chain_id, 0), COALESCE(c.block, 0), c.hash, c.time, c.contracts
FROM collections_state s LEFT JOIN index_cursor c ON true`
	insertCursor = `INSERT INTO index_cursor VALUES (1, $1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	updateCursor = `UPDATE index_cursor SET chain_id = $1, block = $2, hash = $3, time = $4, contracts = $5
WHERE chain_id = $6 AND block = $7 AND hash = $8`
)

// countFormat adds the counts of rows to those of the table collections. What
// was counted before stays, the address as it is written too.
var countFormat = `INSERT INTO collections AS old (` + columns + `) SELECT ` + columns + ` FROM %s WHERE true
ON CONFLICT (key) DO UPDATE SET
	` + sums("asset_count", "licenses_count", "raised_dispute_count", "cancelled_dispute_count", "judged_dispute_count", "resolved_dispute_count") + `
	created_at = CASE WHEN excluded.created_at < old.created_at THEN excluded.created_at ELSE old.created_at END,
	updated_at = CASE WHEN excluded.updated_at > old.updated_at THEN excluded.updated_at ELSE old.updated_at END`

// sums adds to the counters, up to ledger.MaxCount. One that an import brought
// above stays there: no counter goes down.
func sums(counters ...string) string {
	var all strings.Builder
	for _, counter := range counters {
		fmt.Fprintf(&all, "%[1]s = CASE WHEN old.%[1]s > %[2]d THEN old.%[1]s WHEN old.%[1]s > %[2]d - excluded.%[1]s THEN %[2]d ELSE old.%[1]s + excluded.%[1]s END,\n\t",
			counter, int64(ledger.MaxCount))
	}
	return strings.TrimSpace(all.String())
}

// ownersAtOnce is how many owners a statement writes.
const ownersAtOnce = 4096

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
func (s *store) owners(ctx context.Context, kind string, ids []string, found func(id []byte, collection ledger.Address)) error {
	if len(ids) == 0 {
		return nil
	}
	statement := fmt.Sprintf("SELECT %[1]s, collection FROM index_%[1]ss WHERE %[1]s ", kind) + s.inList(fmt.Sprintf(s.bytes, "value"))
	return s.query(ctx, statement, []any{s.texts(ids)}, func(row *sql.Rows) error {
		var id, collection []byte
		if err := row.Scan(&id, &collection); err != nil {
			return err
		}
		if len(collection) != len(ledger.Address{}) {
			return fmt.Errorf("the collection of %x is %x", id, collection)
		}
		found(id, ledger.Address(collection))
		return nil
	})
}

// Apply waits for the disk, as every commit does. In PostgreSQL it need not
// (synchronous_commit off): after a crash the cursor would come back a little
// earlier, and nothing would count twice. But readers have seen generations that
// would then come again with other pages.
func (s *store) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	return s.connect(ctx, s.beforeTally, func(w *sql.Conn) error {
		return s.transact(ctx, w, func() error {
			if err := s.moveCursor(ctx, w, prev, t.Cursor); err != nil {
				return err
			}
			if err := s.noteStep(ctx, w, prev, t); err != nil {
				return err
			}
			if err := s.learn(ctx, w, "ip", 2*len(ledger.Address{}), pairs(t.Learned.IPs)); err != nil {
				return err
			}
			if err := s.learn(ctx, w, "dispute", 2*len(ledger.Hash{}), pairs(t.Learned.Disputes)); err != nil {
				return err
			}
			return s.count(ctx, w, t.Changes)
		})
	})
}

// moveCursor keeps other indexers out until the transaction ends. It fails with
// ledger.ErrCursorMoved if the cursor is not prev.
func (s *store) moveCursor(ctx context.Context, w *sql.Conn, prev, next ledger.Cursor) error {
	var contracts []byte
	if c := next.Contracts; c != (ledger.Contracts{}) {
		contracts = slices.Concat(c.Registry[:], c.Licensing[:], c.Disputes[:])
	}
	statement, args := insertCursor, []any{next.Chain, next.Block, next.Hash[:], s.time(next.Time), contracts}
	if prev != (ledger.Cursor{}) {
		statement, args = updateCursor, append(args, prev.Chain, prev.Block, prev.Hash[:])
	}
	result, err := w.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err == nil && rows != 1 {
		err = ledger.ErrCursorMoved
	}
	return err
}

// digits are the hex digits of ids, without 0x.
func digits[ID fmt.Stringer](ids []ID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = id.String()[2:]
	}
	return all
}

// pairs are ids, each with the collection that owns it, in hex digits. They are in
// the order of the database's indexes, which spares these.
func pairs[ID interface {
	comparable
	fmt.Stringer
}](owners map[ID]ledger.Address) []string {
	all := make([]string, 0, len(owners))
	for id, collection := range owners {
		all = append(all, id.String()[2:]+collection.String()[2:])
	}
	slices.Sort(all)
	return all
}

// learn notes the owners of ids of a kind, which names the table. Each id has so
// many digits.
func (s *store) learn(ctx context.Context, w *sql.Conn, kind string, digits int, pairs []string) error {
	id, collection := fmt.Sprintf("substr(value, 1, %d)", digits), fmt.Sprintf("substr(value, %d)", digits+1)
	statement := fmt.Sprintf("INSERT INTO index_%ss SELECT %s, %s FROM %s WHERE true ON CONFLICT DO NOTHING", kind,
		fmt.Sprintf(s.bytes, id), fmt.Sprintf(s.bytes, collection), s.list)
	for some := range slices.Chunk(pairs, ownersAtOnce) {
		if err := exec(ctx, w, statement, s.texts(some)); err != nil {
			return err
		}
	}
	return nil
}

// count adds changes to the collections.
func (s *store) count(ctx context.Context, w *sql.Conn, changes []ledger.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := exec(ctx, w, s.lockRows); err != nil {
		return err
	}
	for some := range slices.Chunk(changes, s.rowsAtOnce) {
		rows := make([]collections.Collection, len(some))
		for i, c := range some {
			rows[i] = collections.Collection{
				Address: c.Collection.String(), AssetCount: c.Assets, LicensesCount: c.Licenses, RaisedDisputeCount: c.Raised,
				CancelledDisputeCount: c.Cancelled, JudgedDisputeCount: c.Judged, ResolvedDisputeCount: c.Resolved,
				CreatedAt: c.First, UpdatedAt: c.Last,
			}
		}
		if err := exec(ctx, w, fmt.Sprintf(countFormat, s.rows(len(rows))), s.pack(rows, 0)...); err != nil {
			return err
		}
	}
	return nil
}

// scanMark reads the answer to selectMark.
func scanMark(row *sql.Row) (m collections.Mark, err error) {
	var hash, contracts []byte
	var at stamp
	if err = row.Scan(&m.Generation, &m.Total, &m.Cursor.Chain, &m.Cursor.Block, &hash, &at, &contracts); err != nil {
		return m, err
	}
	copy(m.Cursor.Hash[:], hash)
	m.Cursor.Time = at.Time
	c := &m.Cursor.Contracts
	for i, to := range []*ledger.Address{&c.Registry, &c.Licensing, &c.Disputes} {
		if len(contracts) == 3*len(to) {
			copy(to[:], contracts[i*len(to):])
		}
	}
	return m, nil
}
