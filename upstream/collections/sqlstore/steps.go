package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

const (
	selectSteps = `SELECT block, hash, from_block, from_hash, from_time FROM index_steps ORDER BY block DESC`
	insertStep  = `INSERT INTO index_steps VALUES ($1, $2, $3, $4, $5) ON CONFLICT (block) DO UPDATE SET
	hash = excluded.hash, from_block = excluded.from_block, from_hash = excluded.from_hash, from_time = excluded.from_time`
	trimSteps = `DELETE FROM index_steps WHERE block NOT IN (SELECT block FROM index_steps ORDER BY block DESC LIMIT 64)`
)

// noteStep remembers how the cursor moved, or forgets all moves where the tally
// counts something: there is no way back over that.
func (s *store) noteStep(ctx context.Context, w *sql.Conn, prev ledger.Cursor, t ledger.Tally) error {
	if len(t.Changes)+len(t.Learned.IPs)+len(t.Learned.Disputes) > 0 || prev == (ledger.Cursor{}) {
		return exec(ctx, w, "DELETE FROM index_steps")
	}
	at := t.Cursor
	if err := exec(ctx, w, insertStep, at.Block, at.Hash[:], prev.Block, prev.Hash[:], s.time(prev.Time)); err != nil {
		return err
	}
	return exec(ctx, w, trimSteps)
}

// Trail follows the moves from the cursor back. Where an earlier version of the
// program moved it without a note, the trail ends.
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

func (s *store) StepBack(ctx context.Context, from, to ledger.Cursor) error {
	return s.connect(ctx, s.beforeTally, func(w *sql.Conn) error {
		return s.transact(ctx, w, func() error {
			if err := s.moveCursor(ctx, w, from, to); err != nil {
				return err
			}
			return exec(ctx, w, "DELETE FROM index_steps WHERE block > $1", to.Block)
		})
	})
}
