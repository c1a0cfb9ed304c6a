package collections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// ErrNotIndexed is what the methods for indexers return for a store that
// another server fills.
var ErrNotIndexed = errors.New("collections: the store is read-only: index into the database behind it")

// An indexable is a driver that counts what the chain says.
type indexable interface {
	driver
	owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error)
	apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error
	lead(ctx context.Context, work func(context.Context) error) error
	mark(ctx context.Context) (Mark, error)
}

func (s *Store) indexable() (indexable, error) {
	if l, ok := s.driver.(indexable); ok {
		return l, nil
	}
	return nil, ErrNotIndexed
}

// A Mark is how far a store has come.
type Mark struct {
	Generation int64         // as in Page
	Total      int64         // collections there are
	Cursor     ledger.Cursor // the last block counted; zero for none
}

// Mark returns how far the store has come. It is cheap enough to be asked for
// every second, and its errors are those of List, or ErrNotIndexed.
func (s *Store) Mark(ctx context.Context) (m Mark, err error) {
	l, err := s.indexable()
	if err != nil {
		return m, err
	}
	err = s.within(ctx, func(ctx context.Context) error {
		m, err = l.mark(ctx)
		return err
	})
	return m, err
}

// Cursor returns the last block whose events the store has counted, the zero
// Cursor if there is none. Its errors are those of Mark.
func (s *Store) Cursor(ctx context.Context) (ledger.Cursor, error) {
	m, err := s.Mark(ctx)
	return m.Cursor, err
}

// Owners returns those of the ids that the store knows. Its errors are those of
// Mark.
func (s *Store) Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (found ledger.Owners, err error) {
	l, err := s.indexable()
	if err != nil {
		return found, err
	}
	ctx, span := upstream.StartSpan(ctx, "collections.owners")
	err = s.within(ctx, func(ctx context.Context) error {
		found, err = l.owners(ctx, ips, disputes)
		return err
	})
	upstream.EndSpan(span, err)
	return found, err
}

// applyPatience is how many times Options.Timeout an Apply may take: it writes,
// and may wait for an import.
const applyPatience = 12

// Apply counts a tally, learns its ids and moves the cursor, all in one
// transaction, if the cursor is still prev. If it is not, the error is
// ledger.ErrCursorMoved and nothing was changed. After any other error it is
// not known whether the tally was counted: Cursor tells. A collection that is
// new is created at the time of its first event. Metadata stays as it is.
func (s *Store) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	l, err := s.indexable()
	if err != nil {
		return err
	}
	ctx, span := upstream.StartSpan(ctx, "collections.apply")
	bounded, cancel := context.WithTimeout(ctx, applyPatience*s.timeout)
	defer cancel()
	err = givenUp(ctx, l.apply(bounded, prev, t))
	upstream.EndSpan(span, err)
	return err
}

// Lead runs work while no other process runs it for the same database, and
// waits for its turn first. The context that work gets ends with ctx, and when
// the lock is lost together with its connection; in the time until that is
// noticed two may work, which Apply makes harmless. Lead returns what work does,
// or why it has lost the lock. A file has no such lock: there Apply alone keeps
// indexers apart.
func (s *Store) Lead(ctx context.Context, work func(context.Context) error) error {
	l, err := s.indexable()
	if err != nil {
		return err
	}
	return l.lead(ctx, work)
}

// within bounds a read by the store's timeout.
func (s *Store) within(ctx context.Context, read func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.noted(givenUp(ctx, read(bounded)))
}

// The statements both databases understand.
const (
	selectMark = `SELECT s.generation, s.total, COALESCE(c.chain_id, 0), COALESCE(c.block, 0), c.hash, c.time, c.contracts
FROM collections_state s LEFT JOIN index_cursor c ON true`
	insertCursor = `INSERT INTO index_cursor VALUES (1, $1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	updateCursor = `UPDATE index_cursor SET chain_id = $1, block = $2, hash = $3, time = $4, contracts = $5
WHERE chain_id = $6 AND block = $7 AND hash = $8`
)

// countFormat adds changes, given a SELECT of them in the columns of
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
func scanMark(row interface{ Scan(...any) error }) (m Mark, err error) {
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
