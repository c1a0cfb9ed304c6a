package sqlstore

import (
	"context"
	"database/sql"
	_ "embed" // for the scripts
	"fmt"

	"github.com/tipcache/tipcache/upstream/collections"
)

var (
	//go:embed schema/sqlite.sql
	sqliteSchema string
	//go:embed schema/postgres.sql
	postgresSchema string
)

// schemaVersion is the version of the tables that the scripts create. Every change of the tables must increase it, and may only
// add to them, because programs of the version before continue to use them during an upgrade.
const schemaVersion = 5

// ready creates the schema unless it is known to exist.
func (s *store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	err := s.createSchema(ctx)
	s.checked.Store(err == nil)
	return err
}

// createSchema creates the tables in one transaction, unless they exist. Several processes may call it at the same time.
func (s *store) createSchema(ctx context.Context) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	exists, err := s.hasSchema(ctx, conn)
	if err != nil || exists {
		return err
	}
	w := &writer{Conn: conn}
	s.transact(ctx, w, func() {
		if w.exec(ctx, s.lockSchema); w.err == nil {
			exists, w.err = s.hasSchema(ctx, conn)
		}
		if !exists {
			w.exec(ctx, s.schema)
			w.exec(ctx, s.setVersion)
		}
	})
	if w.err == nil && !exists {
		s.log.Info("created the store's schema", "store", s.name, "version", schemaVersion)
	}
	return w.err
}

// hasSchema reports whether the database has a schema that this program can use: its own or the next version. It fails with
// collections.ErrSchemaVersion if the version is another.
func (s *store) hasSchema(ctx context.Context, w *sql.Conn) (bool, error) {
	version, err := s.version(ctx, w)
	switch {
	case err != nil || version == 0:
		return false, err
	case version == schemaVersion, version == schemaVersion+1:
		return true, nil
	}
	remedy := "upgrade tipcache"
	if version < schemaVersion {
		remedy = "fill an empty database by tipcache index or tipcache import, with its URL as --store"
	}
	return false, fmt.Errorf("%w %d, but this program needs version %d: %s", collections.ErrSchemaVersion, version, schemaVersion, remedy)
}
