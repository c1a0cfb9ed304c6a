package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

// migrationLock and importLock are advisory locks of PostgreSQL: numbers that
// all tipcaches of a database agree on.
const (
	migrationLock = 0x7469706361636865 // "tipcache"
	importLock    = migrationLock + 1
)

// connectTimeout bounds one attempt to connect.
const connectTimeout = 3 * time.Second

// postgresStore keeps collections in PostgreSQL. It connects when first asked
// and migrates the schema before anything else.
type postgresStore struct {
	pool   *pgxpool.Pool
	hide   *strings.Replacer // the password, which a server, or what stands before it, may repeat
	totals totals

	migrated atomic.Bool
	turn     chan struct{} // holds the token of whoever migrates, and guards what follows
	failure  error         // of the last migration
	failedAt time.Time
}

// retryMigration is how long the failure of a migration answers for the next:
// those who waited for it shall not each wait again.
const retryMigration = 500 * time.Millisecond

// OpenPostgres opens the database at a URL and migrates its schema. One that is
// silent is connected to, and migrated, when it is first asked. What cannot heal by
// itself is an error, which holds no credentials.
func OpenPostgres(ctx context.Context, url string, o collections.Options) (string, collections.Driver, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The cause quotes the URL, in which any part may be a password.
		return "", nil, errors.New("collections: the postgres URL is malformed (not shown: it may hold a password)")
	}
	config.MaxConns = int32(o.Connections)
	config.ConnConfig.ConnectTimeout = min(connectTimeout, o.Timeout)
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "tipcache"
	}
	hide := upstream.NewRedactor(nil, config.ConnConfig.Password)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return "", nil, fmt.Errorf("collections: %w", upstream.RedactError(err, hide))
	}
	name := postgresName(config.ConnConfig)
	s := &postgresStore{pool: pool, hide: hide, turn: make(chan struct{}, 1)}
	waiting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := s.ready(waiting); err != nil {
		silent, ok := errors.AsType[*upstream.Error](err)
		if !ok || silent.Kind == upstream.BadAnswer {
			pool.Close()
			return "", nil, fmt.Errorf("collections: opening %s: %w", name, err)
		}
	}
	return name, s, nil
}

// postgresName names the database without its user and password.
func postgresName(c *pgx.ConnConfig) string {
	host := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if strings.HasPrefix(c.Host, "/") {
		host = c.Host // a directory of sockets
	}
	return "postgres://" + host + "/" + c.Database
}

// ready migrates the schema, once.
func (s *postgresStore) ready(ctx context.Context) error {
	if s.migrated.Load() {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return s.failed(ctx.Err())
	}
	if s.migrated.Load() {
		return nil
	}
	if s.failure != nil && time.Since(s.failedAt) < retryMigration {
		return s.failure
	}
	err := s.failed(s.migrate(ctx))
	if !errors.Is(err, context.Canceled) {
		s.failure, s.failedAt = err, time.Now()
	}
	s.migrated.Store(err == nil)
	return err
}

// migrate brings the schema up to date, in one transaction that waits for the
// migrations of other processes.
func (s *postgresStore) migrate(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		version, err := schemaVersion(ctx, tx)
		if err != nil {
			return err
		}
		scripts, err := migrations("postgres", version)
		if err != nil {
			return err
		}
		for i, script := range scripts {
			if _, err := tx.Exec(ctx, script); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO collections_schema VALUES ($1)", version+i+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// schemaVersion reads the version, and makes its table where there is none. Not
// CREATE IF NOT EXISTS: a role that may only read would be refused even that.
func schemaVersion(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var known bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass('collections_schema') IS NOT NULL").Scan(&known); err != nil {
		return 0, err
	}
	if !known {
		_, err := tx.Exec(ctx, "CREATE TABLE collections_schema (version integer NOT NULL)")
		return 0, err
	}
	err = tx.QueryRow(ctx, "SELECT COALESCE(max(version), 0) FROM collections_schema").Scan(&version)
	return version, err
}

func (s *postgresStore) List(ctx context.Context, q collections.Query) (page collections.Page, err error) {
	err = s.twice(ctx, func() error {
		page, err = s.read(ctx, q)
		return err
	})
	return page, err
}

func (s *postgresStore) Ping(ctx context.Context) error {
	return s.twice(ctx, func() error { return s.pool.Ping(ctx) })
}

// twice reads, and reads again when the server went away under a pooled
// connection: the other connections are as dead, but it may be back already.
func (s *postgresStore) twice(ctx context.Context, read func() error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := read()
	if lost(err) && ctx.Err() == nil {
		s.pool.Reset()
		err = read()
	}
	return s.failed(err)
}

// read reads a page. The statement is planned anew each time
// (QueryExecModeExec): a plan made for any offset is bad for most.
func (s *postgresStore) read(ctx context.Context, q collections.Query) (collections.Page, error) {
	stmt, args := statement{Query: q}, []any{pgx.QueryExecModeExec}
	switch {
	case len(q.Addresses) > 0:
		stmt.inKeys, args = "= ANY($1)", append(args, q.Keys())
	case q.Ranged():
		stmt.generation, stmt.total, stmt.counted = s.totals.get(rangeOf(q))
	}
	rows, err := s.pool.Query(ctx, stmt.sql(), args...)
	if err != nil {
		return collections.Page{}, err
	}
	defer rows.Close()
	page, err := scanPage(rows)
	if err == nil && len(q.Addresses) == 0 && q.Ranged() {
		s.totals.put(rangeOf(q), page.Generation, page.Total)
	}
	return page, err
}

func (s *postgresStore) Close() error {
	s.pool.Close()
	return nil
}

// lost reports whether an established connection broke.
func lost(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	silent, ok := errors.AsType[*upstream.Error](postgresError(err))
	return ok && silent.Kind == upstream.Unreachable
}

// failed is a failure as it is told: classified, and without the password.
func (s *postgresStore) failed(err error) error {
	return postgresError(upstream.RedactError(err, s.hide))
}

// postgresError classifies a failure. What is classified already stays.
func postgresError(err error) error {
	if _, done := errors.AsType[*upstream.Error](err); done || err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return upstream.Silence(collections.OriginName, err)
	case errors.Is(err, collections.ErrNewerSchema):
		return collections.Unusable(err)
	case !ok:
		return upstream.Silence(collections.OriginName, err)
	}
	switch class := fmt.Sprintf("%.2s", refusal.Code); class {
	case "53", "40", "55": // out of resources, deadlock, lock not available
		return collections.Busy(err)
	case "57": // shutting down, starting, query cancelled
		if refusal.Code == "57014" {
			return &upstream.Error{Kind: upstream.Timeout, Msg: collections.OriginName + " did not answer in time", Err: err}
		}
		fallthrough
	case "08", "28", "3D": // connection, credentials, no such database
		return &upstream.Error{Kind: upstream.Unreachable, Msg: collections.OriginName + " cannot be reached", Err: err}
	default:
		return collections.Unusable(err)
	}
}
