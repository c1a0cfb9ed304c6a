package sqlstore

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// The statements both databases understand.
const (
	selectMark = `SELECT s.generation, s.total, COALESCE(c.chain_id, 0), COALESCE(c.block, 0), c.hash, c.time, c.contracts
FROM collections_state s LEFT JOIN index_cursor c ON true`
	insertCursor = `INSERT INTO index_cursor VALUES (1, $1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	updateCursor = `UPDATE index_cursor SET chain_id = $1, block = $2, hash = $3, time = $4, contracts = $5
WHERE chain_id = $6 AND block = $7 AND hash = $8`
)

// countFormat adds changes, given a SELECT of them in the columns of the table
// collections. What was counted before stays, the address as it is written too.
const countFormat = `INSERT INTO collections AS old (` + columns + `) %s
ON CONFLICT (key) DO UPDATE SET
	asset_count = old.asset_count + excluded.asset_count,
	licenses_count = old.licenses_count + excluded.licenses_count,
	raised_dispute_count = old.raised_dispute_count + excluded.raised_dispute_count,
	cancelled_dispute_count = old.cancelled_dispute_count + excluded.cancelled_dispute_count,
	judged_dispute_count = old.judged_dispute_count + excluded.judged_dispute_count,
	resolved_dispute_count = old.resolved_dispute_count + excluded.resolved_dispute_count,
	created_at = CASE WHEN excluded.created_at < old.created_at THEN excluded.created_at ELSE old.created_at END,
	updated_at = CASE WHEN excluded.updated_at > old.updated_at THEN excluded.updated_at ELSE old.updated_at END`

// moveCursor returns the statement that moves the cursor and what it is given.
// It changes one row, or none if the cursor is not prev. Times are for the
// database to encode.
func moveCursor(prev, next ledger.Cursor, encode func(time.Time) any) (statement string, args []any) {
	args = []any{next.Chain, next.Block, next.Hash[:], encode(next.Time), contractBytes(next.Contracts)}
	if prev == (ledger.Cursor{}) {
		return insertCursor, args
	}
	return updateCursor, append(args, prev.Chain, prev.Block, prev.Hash[:])
}

// contractBytes are the contracts as they are stored, nil for none.
func contractBytes(c ledger.Contracts) []byte {
	if c == (ledger.Contracts{}) {
		return nil
	}
	return slices.Concat(c.Registry[:], c.Licensing[:], c.Disputes[:])
}

// A pair is an id and the collection it belongs to.
type pair struct{ id, collection []byte }

// ipPairs and disputePairs are owners in the order of the databases' indexes,
// which spares these.
func ipPairs(owners ledger.Owners) []pair {
	pairs := make([]pair, 0, len(owners.IPs))
	for ip, collection := range owners.IPs {
		pairs = append(pairs, pair{ip[:], collection[:]})
	}
	return sorted(pairs)
}

func disputePairs(owners ledger.Owners) []pair {
	pairs := make([]pair, 0, len(owners.Disputes))
	for id, collection := range owners.Disputes {
		pairs = append(pairs, pair{id[:], collection[:]})
	}
	return sorted(pairs)
}

func sorted(pairs []pair) []pair {
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.id, b.id) })
	return pairs
}

// scanMark reads the answer to selectMark.
func scanMark(row interface{ Scan(...any) error }) (m collections.Mark, err error) {
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

// scanPairs reads ids and their collections, and hands them on.
func scanPairs(rows rows, found func(id []byte, collection ledger.Address)) error {
	for rows.Next() {
		var id, collection []byte
		if err := rows.Scan(&id, &collection); err != nil {
			return err
		}
		if len(collection) != len(ledger.Address{}) {
			return fmt.Errorf("the collection of %x is %x", id, collection)
		}
		found(id, ledger.Address(collection))
	}
	return rows.Err()
}

// newOwners returns owners, and what adds to them.
func newOwners() (found ledger.Owners, addIP, addDispute func(id []byte, collection ledger.Address)) {
	found = ledger.Owners{IPs: map[ledger.Address]ledger.Address{}, Disputes: map[ledger.Hash]ledger.Address{}}
	addIP = func(id []byte, collection ledger.Address) { found.IPs[ledger.Address(id)] = collection }
	addDispute = func(id []byte, collection ledger.Address) { found.Disputes[ledger.Hash(id)] = collection }
	return found, addIP, addDispute
}
