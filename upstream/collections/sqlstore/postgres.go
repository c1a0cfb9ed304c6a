package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

const (
	connectTimeout = 3 * time.Second // for one connection attempt
	answerTimeout  = 5 * time.Second // for a statement that does not wait for locks
	idleTime       = 5 * time.Second // idle connections are closed after one to two times this long
)

type postgresEngine struct {
	pool *pgxpool.Pool
	hide *strings.Replacer // redacts the password, which a server or a proxy may echo

	readOnly atomic.Bool // a connection could not write, so the next leader replaces all
}

func (e *postgresEngine) open(ctx context.Context, s *store) error {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err := s.ready(waiting)
	if kind := upstream.KindOf(postgresError(err)); kind != 0 && kind != upstream.BadAnswer {
		return nil // the first successful query creates the schema
	}
	return err
}

func connectPostgres(ctx context.Context, url string, o collections.Options) (*store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The cause quotes the URL, in which any part may be a password.
		return nil, errors.New("collections: the postgres URL is malformed (not shown: it may hold a password)")
	}
	setDefaults(config, o)
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "tipcache"
	}
	hide := upstream.NewRedactor(nil, config.ConnConfig.Password)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("collections: %w", upstream.RedactError(err, hide))
	}
	return newPostgres(postgresName(config.ConnConfig), pool, hide, o), nil
}

// setDefaults sets what the URL does not set. The idle time of connections is short, because a session pooler counts idle
// connections, so they would be missing for other replicas.
func setDefaults(config *pgxpool.Config, o collections.Options) {
	lacks := func(name string) bool { return !strings.Contains(config.ConnString(), name+"=") }
	if lacks("pool_max_conns") {
		config.MaxConns = int32(o.Connections)
	}
	if lacks("connect_timeout") {
		config.ConnConfig.ConnectTimeout = min(connectTimeout, o.Timeout)
	}
	if lacks("pool_max_conn_idle_time") {
		config.MaxConnIdleTime = idleTime
	}
	if lacks("pool_health_check_period") {
		config.HealthCheckPeriod = idleTime
	}
}

func newPostgres(name string, pool *pgxpool.Pool, hide *strings.Replacer, o collections.Options) *store {
	db := stdlib.OpenDBFromPool(pool)
	return &store{dialect: postgresDialect, engine: &postgresEngine{pool: pool, hide: hide}, name: name, log: o.Logger, readers: db, writer: db, patience: o.Timeout}
}

// postgresName returns the database's URL without user and password.
func postgresName(c *pgx.ConnConfig) string {
	host := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if strings.HasPrefix(c.Host, "/") {
		host = c.Host // a socket directory
	}
	return "postgres://" + host + "/" + c.Database
}

// version does not create a missing table, because a read-only role must not.
func (e *postgresEngine) version(ctx context.Context, w *sql.Conn) (version int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	// Not to_regclass, which may repeat its earlier result after another process has created the table.
	const exists = "SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'collections_schema' AND pg_table_is_visible(oid))"
	var known bool
	err = w.QueryRowContext(ctx, exists).Scan(&known)
	if err == nil && known {
		err = w.QueryRowContext(ctx, "SELECT COALESCE(max(version), 0) FROM collections_schema").Scan(&version)
	}
	return version, err
}

// retry retries a read once if the connection broke. It resets the pool first, because the other connections are then probably
// broken, too.
func (e *postgresEngine) retry(ctx context.Context, read func() error) error {
	err := read()
	if lost(err) && ctx.Err() == nil {
		e.pool.Reset()
		err = read()
	}
	return err
}

func (e *postgresEngine) close() { e.pool.Close() }

// failed classifies an error and removes the password. It names each cause of a failed connection once: pgx puts the address
// before the address of the cause, and repeats the attempt without TLS.
func (e *postgresEngine) failed(err error) error {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		var causes []string
		for line := range strings.SplitSeq(errors.Unwrap(connect).Error(), "\n") {
			_, cause, found := strings.Cut(line, "): dial error: ")
			if !found {
				cause = line
			}
			causes = append(causes, cause)
		}
		err = upstream.Reword(err, strings.Join(slices.Compact(causes), "; "))
	}
	switch refusal, _ := errors.AsType[*pgconn.PgError](err); {
	case refusal == nil:
	case refusal.Code == readOnlyCode:
		e.readOnly.Store(true)
	case refusal.Code == duplicateStatementCode, refusal.Code == unknownStatementCode:
		err = fmt.Errorf("%w: %w", errPrepared, err)
	}
	return postgresError(upstream.RedactError(err, e.hide))
}

// readOnlyCode is the SQLSTATE of a write on a connection that cannot write, as to a server that a failover has made a standby.
const readOnlyCode = "25006"

// The SQLSTATEs of prepared statements that another connection to a pooler prepared, or that it did not.
const (
	duplicateStatementCode = "42P05"
	unknownStatementCode   = "26000"
)

// errPrepared means that a pooler gives the prepared statements of a connection to others.
var errPrepared = errors.New("a pooler in transaction or statement mode mixes up prepared statements: to read through it, add default_query_exec_mode=exec to the URL; to index or import, connect directly, or through a pooler in session mode")

// lost reports whether an established connection broke.
func lost(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	return upstream.KindOf(postgresError(err)) == upstream.Unreachable
}

// postgresError classifies an error, unless it is already classified.
func postgresError(err error) error {
	if _, done := errors.AsType[*upstream.Error](err); done || err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, collections.ErrSchemaVersion):
		return collections.Unusable(err)
	case !ok || errors.Is(err, context.DeadlineExceeded):
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

// The advisory locks of PostgreSQL, shared by all tipcache processes of a database. leaderLock is the seed of one lock for each
// schema.
const (
	schemaLock int64 = 0x7469706361636865 // "tipcache"
	importLock       = schemaLock + 1
	leaderLock       = schemaLock + 2
)

const dropTemporary = "DROP TABLE IF EXISTS pg_temp.staged"

var postgresDialect = dialect{
	begin:      "BEGIN",
	lockSchema: fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", schemaLock),
	lockRows:   fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", importLock),
	scripts:    "postgres",
	setVersion: fmt.Sprintf(`CREATE TABLE IF NOT EXISTS collections_schema (version integer NOT NULL);
INSERT INTO collections_schema VALUES (%d)`, schemaVersion),

	selectVersion:  "SELECT 'PostgreSQL ' || current_setting('server_version')",
	selectReadOnly: "SELECT current_setting('transaction_read_only') = 'on'", // also on a standby

	list:     "json_array_elements($1::json) AS list (value)",
	among:    "= ANY(ARRAY(%s))",
	bytes:    "decode(%s, 'hex')",
	time:     func(t time.Time) any { return t },
	timeType: "timestamptz",

	// A page is planned each time, because a generic plan for any offset is bad for most offsets.
	planned: []any{pgx.QueryExecModeExec},

	// A cancelled import may have left its table on the connection.
	beforeImport: dropTemporary,
	dropStaged:   dropTemporary,

	// Index-only scans of pages need a visibility map and statistics. Autovacuum would update them later.
	afterImport: "VACUUM (ANALYZE) collections",
}
