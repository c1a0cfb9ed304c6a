package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tipcache/tipcache/upstream/collections"
)

// The file or schema of the store beside one is named like its own, with this at the end.
const (
	besideFile   = ".rebuild"
	besideSchema = "_rebuild"
)

// adoptFormats make the tables those of the store beside, whose prefix is the verb.
// Rows that are the same stay, so that little is written. The cursor goes first: a
// tally that is under way is waited for, and the next one finds another cursor.
var adoptFormats = []string{
	`DELETE FROM index_cursor`,
	`INSERT INTO index_cursor (id, chain_id, block, hash, time, contracts, incomplete)
	SELECT id, chain_id, block, hash, time, contracts, incomplete FROM %s.index_cursor`,
	`DELETE FROM index_steps`,
	`INSERT INTO index_steps SELECT block, hash, from_block, from_hash, from_time FROM %s.index_steps`,
	`DELETE FROM index_ips WHERE NOT EXISTS (SELECT 1 FROM %s.index_ips n WHERE n.ip = index_ips.ip AND n.collection = index_ips.collection)`,
	`INSERT INTO index_ips SELECT ip, collection FROM %s.index_ips WHERE true ON CONFLICT DO NOTHING`,
	`DELETE FROM index_disputes WHERE NOT EXISTS (SELECT 1 FROM %s.index_disputes n
	WHERE n.dispute = index_disputes.dispute AND n.collection = index_disputes.collection)`,
	`INSERT INTO index_disputes SELECT dispute, collection FROM %s.index_disputes WHERE true ON CONFLICT DO NOTHING`,
	`DELETE FROM collections AS old WHERE NOT EXISTS (SELECT 1 FROM %s.collections n WHERE n.key = old.key
	AND (n.address, n.asset_count, n.licenses_count, n.raised_dispute_count, n.cancelled_dispute_count,
		n.judged_dispute_count, n.resolved_dispute_count, n.created_at, n.updated_at)
	= (old.address, old.asset_count, old.licenses_count, old.raised_dispute_count, old.cancelled_dispute_count,
		old.judged_dispute_count, old.resolved_dispute_count, old.created_at, old.updated_at))`,
	`INSERT INTO collections (` + columns + `) SELECT ` + columns + ` FROM %s.collections WHERE true ON CONFLICT DO NOTHING`,
}

func (s *store) Beside(ctx context.Context) (string, collections.Driver, error) {
	if err := s.ready(ctx); err != nil {
		return "", nil, s.failed(err)
	}
	beside, err := s.beside(ctx, s)
	if err != nil {
		return "", nil, s.failed(err)
	}
	return beside.name, beside, nil
}

func (s *store) Adopt(ctx context.Context) error {
	return s.connect(ctx, s.beforeImport, func(w *sql.Conn) error {
		prefix, detach, err := s.attach(ctx, s, w)
		if err != nil {
			return err
		}
		defer cleanUp(ctx, w, detach)
		return s.transact(ctx, w, func() error {
			for i, format := range adoptFormats {
				if err := exec(ctx, w, strings.ReplaceAll(format, "%s", prefix)); err != nil {
					return err
				}
				if i == 0 {
					if err := exec(ctx, w, s.lockRows); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

func (s *store) DropBeside(ctx context.Context) error { return s.failed(s.dropBeside(ctx, s)) }

// besideOptions are those of the store beside one.
func (s *store) besideOptions() collections.Options {
	return collections.Options{Timeout: s.patience, Logger: s.log, Connections: 4}
}

func sqlitePath(s *store) (string, error) {
	path := strings.TrimPrefix(s.name, "sqlite:")
	if path == ":memory:" {
		return "", errors.New("a store in memory has none beside it")
	}
	return path + besideFile, nil
}

func (*sqliteEngine) beside(ctx context.Context, s *store) (*store, error) {
	path, err := sqlitePath(s)
	if err != nil {
		return nil, err
	}
	return openSQLite(ctx, path, s.besideOptions())
}

func (*sqliteEngine) attach(ctx context.Context, s *store, w *sql.Conn) (prefix, detach string, err error) {
	path, err := sqlitePath(s)
	if err == nil {
		err = exec(ctx, w, "ATTACH DATABASE $1 AS rebuilt", path)
	}
	return "rebuilt", "DETACH DATABASE rebuilt", err
}

func (*sqliteEngine) dropBeside(_ context.Context, s *store) error {
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

// besideOf is the schema beside that of a connection.
func besideOf(ctx context.Context, s *store) (schema string, err error) {
	err = s.readers.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema)
	return schema + besideSchema, err
}

// beside looks first for the schema: an operator may not give the right to make one.
func (e *postgresEngine) beside(ctx context.Context, s *store) (*store, error) {
	schema, err := besideOf(ctx, s)
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
		return nil, fmt.Errorf("making the schema %s: %w", quoted, err)
	}
	config := e.pool.Config()
	config.ConnConfig.RuntimeParams["search_path"] = quoted
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, err
	}
	beside := newPostgres(s.name+" "+quoted, pool, e.hide, s.besideOptions())
	var at string
	if err = beside.readers.QueryRowContext(ctx, "SELECT current_schema()").Scan(&at); err == nil && at != schema {
		err = fmt.Errorf("connections come to the schema %q, not %s: a pooler ignores search_path; connect to PostgreSQL itself", at, quoted)
	}
	if err == nil {
		err = beside.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, beside.Close())
	}
	return beside, nil
}

func (*postgresEngine) attach(ctx context.Context, s *store, _ *sql.Conn) (prefix, detach string, err error) {
	schema, err := besideOf(ctx, s)
	return pgx.Identifier{schema}.Sanitize(), "", err
}

func (*postgresEngine) dropBeside(ctx context.Context, s *store) error {
	schema, err := besideOf(ctx, s)
	if err == nil {
		_, err = s.writer.ExecContext(ctx, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	}
	return err
}
