package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/upstream/collections"
)

// scripts are the changes of the schema, by database and by the version that they lead to. The first one creates the tables.
// The others only add to them, because programs of the version before continue to use the store during an upgrade.
//
//go:embed schema
var scripts embed.FS

// The version of the schema that this program needs, and the first one.
const (
	schemaVersion = 6
	firstVersion  = 4
)

// ready creates the schema, or migrates it, unless it is known to be usable.
func (s *store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	err := s.prepareSchema(ctx)
	s.checked.Store(err == nil)
	return err
}

// prepareSchema executes the scripts that the database lacks, in one transaction. Several processes may call it at the same
// time: one executes the scripts.
func (s *store) prepareSchema(ctx context.Context) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	before, err := s.findSchema(ctx, conn)
	if err != nil || before >= schemaVersion {
		return err
	}
	w := &writer{Conn: conn}
	s.transact(ctx, w, func() {
		w.exec(ctx, s.lockSchema)
		w.exec(ctx, s.lockRows) // imports and tallies hold locks that readers would queue behind
		if w.err == nil {
			before, w.err = s.findSchema(ctx, conn)
		}
		s.migrate(ctx, w, before)
	})
	switch {
	case w.err != nil || before >= schemaVersion:
	case before == 0:
		s.log.Info("created the store's schema", "store", s.name, "version", schemaVersion)
	default:
		s.log.Info("changed the store's schema", "store", s.name, "version", schemaVersion, "before", before)
	}
	return w.err
}

// migrate executes the scripts after a version.
func (s *store) migrate(ctx context.Context, w *writer, version int) {
	for next := max(version+1, firstVersion); next <= schemaVersion && w.err == nil; next++ {
		script, _ := scripts.ReadFile(fmt.Sprintf("schema/%s-%d.sql", s.scripts, next)) // all versions have one
		if w.exec(ctx, string(script)); w.err != nil {
			w.err = fmt.Errorf("change the store's schema from version %d to %d: %w", version, next, w.err)
		}
	}
	if version < schemaVersion {
		w.exec(ctx, s.setVersion)
	}
}

// findSchema returns the version of the schema, 0 if there is none. It fails with collections.ErrSchemaVersion unless this program
// can use it: the program's version, the next one, or an earlier one that it can change.
func (s *store) findSchema(ctx context.Context, w *sql.Conn) (version int, err error) {
	if version, err = s.version(ctx, w); err != nil {
		return 0, err
	}
	switch {
	case version > schemaVersion+1:
		err = errors.New("upgrade tipcache")
	case version >= schemaVersion:
		return version, nil
	case version > 0 && version < firstVersion:
		err = errors.New("fill an empty database by tipcache index or tipcache import, with its URL as --store")
	default:
		var readOnly bool
		if err = w.QueryRowContext(ctx, s.selectReadOnly).Scan(&readOnly); err != nil || !readOnly {
			return version, err
		}
		err = errors.New("this connection is read-only, so first start tipcache with one that can write")
	}
	return 0, fmt.Errorf("%w %d, but this program needs version %d: %w", collections.ErrSchemaVersion, version, schemaVersion, err)
}
