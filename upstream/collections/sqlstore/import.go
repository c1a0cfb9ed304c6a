package sqlstore

import (
	"cmp"
	"context"
	"iter"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// An import first writes to a temporary table of its connection, because its sequence may be slow. Meanwhile only other
// imports of SQLite have to wait. n is the position of a collection in the sequence.
const (
	createStaged = `CREATE TEMP TABLE staged AS SELECT CAST(0 AS bigint) AS n, ` + columns + ` FROM collections LIMIT 0`
	insertStaged = `INSERT INTO staged SELECT n, ` + columns + ` FROM `
)

// mergeStaged merges the last row of each key. It does not write equal rows, so an import without changes does not change
// the generation.
var mergeStaged = `INSERT INTO collections AS old (` + columns + `)
SELECT ` + columns + ` FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY n DESC) AS place FROM staged) AS placed WHERE place = 1
ON CONFLICT (key) DO UPDATE SET (` + values + `) = ` + valuesOf("excluded") + `
WHERE ` + valuesOf("old") + ` <> ` + valuesOf("excluded")

func (s *store) Load(ctx context.Context, all iter.Seq2[collections.Collection, error]) error {
	if err := s.beginImport(ctx); err != nil {
		return err
	}
	return s.connect(ctx, s.beforeImport, func(w *writer) {
		var indexed bool
		w.err = whileLocked(ctx, func() (err error) {
			indexed, err = hasCursor(ctx, w)
			return err
		})
		if w.err != nil {
			return
		}
		defer cleanUp(ctx, w.Conn, s.dropStaged) // the table may exist even if creating it was interrupted
		w.err = whileLocked(ctx, func() error { return exec(ctx, w.Conn, createStaged) })
		if w.err == nil {
			w.err = s.stage(ctx, w, all)
		}
		if w.err != nil {
			return
		}
		s.transact(ctx, w, func() {
			if w.exec(ctx, s.lockRows); w.err != nil {
				return
			}
			if now, err := hasCursor(ctx, w); err != nil || now && !indexed {
				w.err = cmp.Or(err, ledger.ErrCursorMoved)
			}
			w.exec(ctx, mergeStaged)
		})
		if w.err == nil {
			_ = exec(ctx, w.Conn, s.afterImport) // the import has succeeded even if this fails
		}
	})
}

func hasCursor(ctx context.Context, w *writer) (has bool, err error) {
	err = w.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM index_cursor)").Scan(&has)
	return has, err
}

// stage writes the sequence to the table staged.
func (s *store) stage(ctx context.Context, w *writer, all iter.Seq2[collections.Collection, error]) error {
	n, some := 0, make([]collections.Collection, 0, atOnce)
	write := func() error {
		err := exec(ctx, w.Conn, insertStaged+s.collectionRows(), s.encodeCollections(some, n))
		n, some = n+len(some), some[:0]
		return err
	}
	for c, err := range all {
		if err != nil {
			return err
		}
		if some = append(some, c); len(some) == atOnce {
			if err := write(); err != nil {
				return err
			}
		}
	}
	return write()
}
