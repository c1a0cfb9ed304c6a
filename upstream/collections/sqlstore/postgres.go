package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

const (
	connectTimeout   = 3 * time.Second  // of one attempt to connect
	answerTimeout    = 5 * time.Second  // of a statement that waits for nothing
	idleTime         = 5 * time.Second  // after which a connection that is not used is closed, at the latest after twice as long
	migrationTimeout = 15 * time.Minute // of the scripts that the schema lacks, and of the scripts that other processes apply
)

// postgresEngine connects when first asked, and has the schema migrated before
// anything else.
type postgresEngine struct {
	pool *pgxpool.Pool
	hide *strings.Replacer // the password, which a server, or what stands before it, may repeat

	migrated  atomic.Bool
	migration singleflight.Group
	migrate   func() (any, error) // in times of its own
	end       context.CancelFunc  // ends migrate
}

// OpenPostgres opens the database at a URL and migrates its schema. One that is
// silent is connected to, and migrated, when it is first asked; a migration that
// takes longer than Options.Timeout goes on in the background. What cannot heal by
// itself is an error, which holds no credentials.
func OpenPostgres(ctx context.Context, url string, o collections.Options) (string, collections.Driver, error) {
	s, err := connectPostgres(ctx, url, o)
	if err != nil {
		return "", nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := s.failed(s.ready(waiting)); err != nil {
		if kind := upstream.KindOf(err); kind == 0 || kind == upstream.BadAnswer {
			_ = s.Close()
			return "", nil, fmt.Errorf("collections: opening %s: %w", s.name, err)
		}
	}
	return s.name, s, nil
}

// connectPostgres makes a store that has asked the database nothing yet.
func connectPostgres(ctx context.Context, url string, o collections.Options) (*store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The cause quotes the URL, in which any part may be a password.
		return nil, errors.New("collections: the postgres URL is malformed (not shown: it may hold a password)")
	}
	config.MaxConns = int32(o.Connections)
	giveBack(config)
	config.ConnConfig.ConnectTimeout = min(connectTimeout, o.Timeout)
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "tipcache"
	}
	hide := upstream.NewRedactor(nil, config.ConnConfig.Password)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("collections: %w", upstream.RedactError(err, hide))
	}
	return newPostgres(context.WithoutCancel(ctx), postgresName(config.ConnConfig), pool, hide, o), nil
}

// giveBack has connections that are not needed closed soon, unless the URL says
// otherwise. Before a pooler by session each is one that other replicas go without.
func giveBack(config *pgxpool.Config) {
	said, _ := neturl.Parse(config.ConnString()) // it was parsed before
	if !said.Query().Has("pool_max_conn_idle_time") {
		config.MaxConnIdleTime = idleTime
	}
	if !said.Query().Has("pool_health_check_period") {
		config.HealthCheckPeriod = idleTime
	}
}

func newPostgres(ctx context.Context, name string, pool *pgxpool.Pool, hide *strings.Replacer, o collections.Options) *store {
	db, e := stdlib.OpenDBFromPool(pool), &postgresEngine{pool: pool, hide: hide}
	s := &store{dialect: postgresDialect, engine: e, name: name, log: o.Logger, readers: db, writer: db, patience: o.Timeout}
	ctx, e.end = context.WithCancel(ctx)
	e.migrate = func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, migrationTimeout)
		defer cancel()
		err := s.migrate(ctx)
		e.migrated.Store(err == nil)
		return nil, err
	}
	return s
}

// postgresName names the database without its user and password.
func postgresName(c *pgx.ConnConfig) string {
	host := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if strings.HasPrefix(c.Host, "/") {
		host = c.Host // a directory of sockets
	}
	return "postgres://" + host + "/" + c.Database
}

// ready waits for the migration, which goes on when callers leave.
func (e *postgresEngine) ready(ctx context.Context) error {
	if e.migrated.Load() {
		return nil
	}
	select {
	case done := <-e.migration.DoChan("", e.migrate):
		return done.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// version does not make the table where there is none: a role that may only read
// would be refused even a CREATE IF NOT EXISTS that does nothing.
func (e *postgresEngine) version(ctx context.Context, w *sql.Conn) (version int, err error) {
	known, err := postgresDialect.exists(ctx, w, "collections_schema")
	if err == nil && known {
		err = w.QueryRowContext(ctx, "SELECT COALESCE(max(version), 0) FROM collections_schema").Scan(&version)
	}
	return version, err
}

// again reads, and reads again when the server went away under a pooled
// connection: the other connections are as dead, but it may be back already.
func (e *postgresEngine) again(ctx context.Context, read func() error) error {
	err := read()
	if lost(err) && ctx.Err() == nil {
		e.pool.Reset()
		err = read()
	}
	return err
}

func (e *postgresEngine) close() {
	e.end()
	_, _, _ = e.migration.Do("", func() (any, error) { return nil, nil }) // waits for the one that was ended
	e.pool.Close()
}

// failed leaves the password out.
func (e *postgresEngine) failed(err error) error {
	return postgresError(upstream.RedactError(err, e.hide))
}

// lost reports whether an established connection broke.
func lost(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	return upstream.KindOf(postgresError(err)) == upstream.Unreachable
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
