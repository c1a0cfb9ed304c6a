package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tipcache/tipcache/upstream/collections"
)

// Suffixes of the file or schema of a shadow store.
const (
	shadowFile   = ".rebuild"
	shadowSuffix = "_rebuild"
)

// swapInFormats replace the tables by the shadow store's, whose prefix is the verb. They do not write rows that are equal in
// both stores. The first one fails if the shadow store has no cursor, because another rebuild has swapped it in.
var swapInFormats = []string{
	`INSERT INTO index_cursor (id, chain_id, block, hash, time, contracts, incomplete)
	SELECT c.id, c.chain_id, c.block, c.hash, c.time, c.contracts, c.incomplete FROM collections_state LEFT JOIN %s.index_cursor c ON true`,
	`DELETE FROM index_steps`,
	`INSERT INTO index_steps (block, hash, from_block, from_hash, from_time) SELECT block, hash, from_block, from_hash, from_time FROM %s.index_steps`,
	`DELETE FROM index_ips WHERE NOT EXISTS (SELECT 1 FROM %s.index_ips n WHERE n.ip = index_ips.ip AND n.collection = index_ips.collection)`,
	`INSERT INTO index_ips (ip, collection) SELECT ip, collection FROM %s.index_ips WHERE true ON CONFLICT DO NOTHING`,
	`DELETE FROM index_disputes WHERE NOT EXISTS (SELECT 1 FROM %s.index_disputes n
	WHERE n.dispute = index_disputes.dispute AND n.collection = index_disputes.collection)`,
	`INSERT INTO index_disputes (dispute, collection) SELECT dispute, collection FROM %s.index_disputes WHERE true ON CONFLICT DO NOTHING`,
	`DELETE FROM collections AS old WHERE NOT EXISTS (SELECT 1 FROM %s.collections n WHERE n.key = old.key
	AND ` + valuesOf("n") + ` = ` + valuesOf("old") + `)`,
	`INSERT INTO collections (` + columns + `) SELECT ` + columns + ` FROM %s.collections WHERE true ON CONFLICT DO NOTHING`,
	emptyFormat,
}

// emptyFormat empties the shadow store, whose prefix is the verb, because the next rebuild continues what it contains.
const emptyFormat = `DELETE FROM %s.index_cursor; DELETE FROM %s.index_steps; DELETE FROM %s.index_ips;
	DELETE FROM %s.index_disputes; DELETE FROM %s.collections`

func (s *store) Shadow(ctx context.Context) (string, collections.Ledger, error) {
	if err := s.ready(ctx); err != nil {
		return "", nil, s.failed(err)
	}
	shadow, err := s.shadow(ctx, s)
	if err != nil && shadow != nil {
		err = errors.Join(err, shadow.Close())
	}
	if err != nil {
		return "", nil, s.failed(err)
	}
	return shadow.name, shadow, nil
}

func (s *store) SwapIn(ctx context.Context) error {
	return s.connect(ctx, s.beforeImport, func(w *writer) {
		var prefix, detach string
		if prefix, detach, w.err = s.attach(ctx, s, w.Conn); w.err != nil {
			return
		}
		defer cleanUp(ctx, w.Conn, detach)
		s.transact(ctx, w, func() {
			// The cursor comes first, so that this waits for a tally in progress, and the next tally finds another cursor.
			for _, format := range append([]string{"DELETE FROM index_cursor", s.lockRows}, swapInFormats...) {
				w.exec(ctx, strings.ReplaceAll(format, "%s", prefix))
			}
		})
	})
}

func (s *store) DropShadow(ctx context.Context) error { return s.failed(s.dropShadow(ctx, s)) }

func (s *store) shadowOptions() collections.Options {
	return collections.Options{Settings: collections.Settings{Timeout: s.patience}, Logger: s.log}.WithDefaults()
}

func sqlitePath(s *store) (string, error) {
	path := strings.TrimPrefix(s.name, "sqlite:")
	if path == ":memory:" {
		return "", errors.New("a store in memory cannot be rebuilt")
	}
	return path + shadowFile, nil
}

func (*sqliteEngine) shadow(ctx context.Context, s *store) (*store, error) {
	path, err := sqlitePath(s)
	if err != nil {
		return nil, err
	}
	shadow, err := connectSQLite(path, s.shadowOptions(), false)
	if err == nil {
		err = shadow.open(ctx, shadow)
	}
	return shadow, err
}

func (*sqliteEngine) attach(ctx context.Context, s *store, w *sql.Conn) (prefix, detach string, err error) {
	path, err := sqlitePath(s)
	if err == nil {
		err = exec(ctx, w, "ATTACH DATABASE $1 AS rebuilt", path)
	}
	return "rebuilt", "DETACH DATABASE rebuilt", err
}

func (*sqliteEngine) dropShadow(_ context.Context, s *store) error {
	path, err := sqlitePath(s)
	if err != nil {
		return err
	}
	for _, file := range []string{path + "-wal", path + "-shm", path} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func shadowSchema(ctx context.Context, s *store) (schema string, err error) {
	err = s.readers.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema)
	return schema + shadowSuffix, err
}

// shadow creates the schema only if it does not exist, because the role may lack the right to create one.
func (e *postgresEngine) shadow(ctx context.Context, s *store) (*store, error) {
	schema, err := shadowSchema(ctx, s)
	if err != nil {
		return nil, err
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	var known bool
	err = s.readers.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&known)
	if err == nil && !known {
		_, err = s.writer.ExecContext(ctx, "CREATE SCHEMA "+quoted)
	}
	if err != nil {
		return nil, fmt.Errorf("create schema %s: %w", quoted, err)
	}
	config := e.pool.Config()
	config.ConnConfig.RuntimeParams["search_path"] = quoted
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, err
	}
	shadow := newPostgres(s.name+" "+quoted, pool, e.hide, s.shadowOptions())
	var at string
	if err = shadow.readers.QueryRowContext(ctx, "SELECT current_schema()").Scan(&at); err == nil && at != schema {
		err = fmt.Errorf("connections use the schema %q, not %s: a pooler ignores search_path, so connect to PostgreSQL directly", at, quoted)
	}
	if err == nil {
		err = shadow.ready(ctx)
	}
	return shadow, err
}

func (*postgresEngine) attach(ctx context.Context, s *store, _ *sql.Conn) (prefix, detach string, err error) {
	schema, err := shadowSchema(ctx, s)
	return pgx.Identifier{schema}.Sanitize(), "", err
}

// dropShadow only empties a schema of another role.
func (*postgresEngine) dropShadow(ctx context.Context, s *store) error {
	schema, err := shadowSchema(ctx, s)
	if err != nil {
		return err
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	_, err = s.writer.ExecContext(ctx, "DROP SCHEMA "+quoted+" CASCADE")
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "42501" { // insufficient privilege
		_, err = s.writer.ExecContext(ctx, strings.ReplaceAll(emptyFormat, "%s", quoted))
	}
	return err
}
