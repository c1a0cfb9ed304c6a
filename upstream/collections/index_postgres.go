package collections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream"
)

// What an indexer writes comes as one array per column, of any length.
const (
	postgresChanges = `SELECT key, key, a, l, r, c, j, s, created, updated
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[], $9::timestamptz[])
	AS changes (key, a, l, r, c, j, s, created, updated)`
	postgresPairs   = `INSERT INTO %s SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT DO NOTHING`
	postgresOwnerOf = `SELECT %[1]s, collection FROM index_%[1]ss WHERE %[1]s = ANY($1::bytea[])`
)

func (s *postgresStore) mark(ctx context.Context) (m Mark, err error) {
	err = s.twice(ctx, func() error {
		m, err = scanMark(s.pool.QueryRow(ctx, selectMark))
		return err
	})
	return m, err
}

func (s *postgresStore) owners(ctx context.Context, ips []upstream.Address, disputes []upstream.Hash) (upstream.Owners, error) {
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
func (s *postgresStore) ownersOf(ctx context.Context, kind string, ids [][]byte, found func(id []byte, collection upstream.Address)) error {
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

func (s *postgresStore) apply(ctx context.Context, prev upstream.Cursor, t upstream.Tally) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	moved := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		statement, args := moveCursor(prev, t.Cursor, func(t time.Time) any { return t })
		tag, err := tx.Exec(ctx, statement, args...)
		if moved = tag.RowsAffected() == 1; err != nil || !moved {
			return err
		}
		return tx.SendBatch(ctx, tallyBatch(t)).Close()
	})
	if err == nil && !moved {
		return upstream.ErrCursorMoved
	}
	return postgresError(err)
}

// tallyBatch are the statements that count a tally, sent together.
func tallyBatch(t upstream.Tally) *pgx.Batch {
	batch := &pgx.Batch{}
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

func queueChanges(batch *pgx.Batch, changes []upstream.Change) {
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
