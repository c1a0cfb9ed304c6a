package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// What an indexer writes comes as one array per column, of any length.
const (
	postgresChanges = `SELECT key, key, a, l, r, c, j, s, created, updated
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[], $9::timestamptz[])
	AS changes (key, a, l, r, c, j, s, created, updated)`
	postgresPairs   = `INSERT INTO %s SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT DO NOTHING`
	postgresOwnerOf = `SELECT %[1]s, collection FROM index_%[1]ss WHERE %[1]s = ANY($1::bytea[])`
)

func (s *postgresStore) Mark(ctx context.Context) (m collections.Mark, err error) {
	err = s.twice(ctx, func() error {
		m, err = scanMark(s.pool.QueryRow(ctx, selectMark))
		return err
	})
	return m, err
}

func (s *postgresStore) Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error) {
	ipIDs, disputeIDs := make([][]byte, len(ips)), make([][]byte, len(disputes))
	for i := range ips {
		ipIDs[i] = ips[i][:]
	}
	for i := range disputes {
		disputeIDs[i] = disputes[i][:]
	}
	found, addIP, addDispute := newOwners()
	err := s.twice(ctx, func() error {
		if err := s.ownersOf(ctx, "ip", ipIDs, addIP); err != nil {
			return err
		}
		return s.ownersOf(ctx, "dispute", disputeIDs, addDispute)
	})
	return found, err
}

// ownersOf looks up ids of a kind, which names the column and the table.
func (s *postgresStore) ownersOf(ctx context.Context, kind string, ids [][]byte, found func(id []byte, collection ledger.Address)) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.pool.Query(ctx, fmt.Sprintf(postgresOwnerOf, kind), ids)
	if err != nil {
		return err
	}
	defer rows.Close()
	return scanPairs(rows, found)
}

// apply waits for the disk, as every commit does. Without (synchronous_commit
// off) a server that crashed would come back a little earlier and the cursor
// with it, so nothing would count twice; but readers have seen generations
// that would then come again with other pages.
func (s *postgresStore) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		sent := tx.SendBatch(ctx, tallyBatch(prev, t))
		tag, err := sent.Exec()
		if closing := sent.Close(); err == nil {
			err = closing
		}
		if err == nil && tag.RowsAffected() != 1 {
			err = ledger.ErrCursorMoved // and all is undone
		}
		return err
	})
	if errors.Is(err, ledger.ErrCursorMoved) {
		return ledger.ErrCursorMoved
	}
	return s.failed(err)
}

// tallyBatch are the statements that count a tally, sent together. The first one
// moves the cursor, and with it keeps others out.
func tallyBatch(prev ledger.Cursor, t ledger.Tally) *pgx.Batch {
	batch := &pgx.Batch{}
	statement, args := moveCursor(prev, t.Cursor, func(t time.Time) any { return t })
	batch.Queue(statement, args...)
	queuePairs(batch, "index_ips", ipPairs(t.Learned))
	queuePairs(batch, "index_disputes", disputePairs(t.Learned))
	if len(t.Changes) > 0 {
		// An import that merges might wait for our rows, and we for its.
		batch.Queue("SELECT pg_advisory_xact_lock($1)", int64(importLock))
		queueChanges(batch, t.Changes)
	}
	return batch
}

func queuePairs(batch *pgx.Batch, table string, pairs []pair) {
	if len(pairs) == 0 {
		return
	}
	ids, collections := make([][]byte, len(pairs)), make([][]byte, len(pairs))
	for i, p := range pairs {
		ids[i], collections[i] = p.id, p.collection
	}
	batch.Queue(fmt.Sprintf(postgresPairs, table), ids, collections)
}

func queueChanges(batch *pgx.Batch, changes []ledger.Change) {
	var keys []string
	var counts [6][]int64
	var created, updated []time.Time
	for _, c := range changes {
		keys = append(keys, c.Collection.String())
		for i, n := range [...]int64{c.Assets, c.Licenses, c.Raised, c.Cancelled, c.Judged, c.Resolved} {
			counts[i] = append(counts[i], n)
		}
		created, updated = append(created, c.First), append(updated, c.Last)
	}
	batch.Queue(fmt.Sprintf(countFormat, postgresChanges),
		keys, counts[0], counts[1], counts[2], counts[3], counts[4], counts[5], created, updated)
}
