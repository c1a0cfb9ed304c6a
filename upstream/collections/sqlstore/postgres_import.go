package sqlstore

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream/collections"
)

// createPostgresStaged makes the table an import gathers in, visible to its
// transaction alone. The sequence may be slow, and nobody waits for it.
const createPostgresStaged = `CREATE TEMP TABLE staged ON COMMIT DROP AS
	SELECT 0::bigint AS n, * FROM collections WITH NO DATA`

// lastPostgresStaged selects the last of each key.
const lastPostgresStaged = `SELECT DISTINCT ON (key) ` + columns + ` FROM staged ORDER BY key, n DESC`

func (s *postgresStore) Load(ctx context.Context, all iter.Seq2[collections.Collection, error]) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return merge(ctx, tx, all) }); err != nil {
		return s.failed(err)
	}
	// Pages are read from indexes alone, which takes a visibility map, and the
	// planner needs to know how asset counts are spread. Autovacuum would get
	// there, later.
	_, _ = s.pool.Exec(ctx, "VACUUM (ANALYZE) collections")
	return nil
}

func merge(ctx context.Context, tx pgx.Tx, all iter.Seq2[collections.Collection, error]) error {
	if _, err := tx.Exec(ctx, createPostgresStaged); err != nil {
		return err
	}
	source := newCopySource(all)
	defer source.stop()
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"staged"}, stagedNames, source); err != nil {
		return err
	}
	// One import merges at a time: two might wait for each other's rows.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(importLock)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, fmt.Sprintf(upsertFormat, lastPostgresStaged))
	return err
}

var stagedNames = []string{"n", "key", "address", "asset_count", "licenses_count", "raised_dispute_count",
	"cancelled_dispute_count", "judged_dispute_count", "resolved_dispute_count", "created_at", "updated_at"}

// copySource lets COPY draw from a sequence.
type copySource struct {
	next    func() (collections.Collection, error, bool)
	stop    func()
	n       int64
	current collections.Collection
	err     error
}

func newCopySource(all iter.Seq2[collections.Collection, error]) *copySource {
	next, stop := iter.Pull2(all)
	return &copySource{next: next, stop: stop}
}

// Next implements pgx.CopyFromSource.
func (s *copySource) Next() (ok bool) {
	s.n++
	s.current, s.err, ok = s.next()
	return ok && s.err == nil
}

// Values implements pgx.CopyFromSource.
func (s *copySource) Values() ([]any, error) {
	c := &s.current
	return []any{s.n, c.Key(), c.Address, c.AssetCount, c.LicensesCount, c.RaisedDisputeCount, c.CancelledDisputeCount,
		c.JudgedDisputeCount, c.ResolvedDisputeCount, c.CreatedAt, c.UpdatedAt}, nil
}

// Err implements pgx.CopyFromSource.
func (s *copySource) Err() error { return s.err }
