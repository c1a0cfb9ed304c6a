package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

// tryLead tries to acquire the lock leaderLock, which is separate for each schema.
const tryLead = `SELECT pg_try_advisory_lock(hashtextextended(current_schema(), $1))`

// leadHolders selects the backends that hold the lock.
const leadHolders = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND classid::bigint << 32 | objid::bigint = hashtextextended(current_schema(), $1)`

// selectLead selects the backend of a session, whether it cannot write, and whether it holds the lock.
const selectLead = `SELECT pg_backend_pid(), current_setting('transaction_read_only') = 'on', pg_backend_pid() IN (` + leadHolders + `)`

// selectHolder describes the backend that holds the lock.
const selectHolder = `SELECT format('%s at %s, backend %s', COALESCE(NULLIF(application_name, ''), 'a client'), COALESCE(host(client_addr), 'an unknown address'), pid)
FROM pg_stat_activity WHERE pid IN (` + leadHolders + `)`

// leadInterval is the time between two attempts to acquire the lock, and between two checks of its connection.
const leadInterval = time.Second

// setKeepalive makes the server release the lock about 15 s after a host has disappeared, instead of hours, because a
// disappeared host does not close its connections.
const setKeepalive = `SELECT set_config('tcp_keepalives_idle', '5', false),
	set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '2', false),
	set_config('tcp_user_timeout', '15000', false)`

var (
	// errLeadLost is the cause of a context that ended because the lock was lost.
	errLeadLost = errors.New("collections: the connection that holds the indexer's lock broke")
	// errNoSession means that a pooler gives the connections of the server to several clients.
	errNoSession = errors.New("a pooler in transaction or statement mode does not keep the sessions that indexers and imports need: connect directly, or through a pooler in session mode")
)

// A leader is a session that holds the lock, or waits for it.
type leader struct {
	*pgx.Conn
	backend int32 // of the first statement; a pooler that does not keep sessions changes it
}

// lead holds the lock on a separate connection, so the server releases it however the process ends.
func (e *postgresEngine) lead(ctx context.Context, s *store, work func(context.Context) error) error {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return e.failed(err)
	}
	defer closeConn(ctx, conn)
	_ = answered(ctx, func(ctx context.Context) error { // optional
		_, err := conn.Exec(ctx, setKeepalive)
		return err
	})
	l := &leader{Conn: conn}
	if err := e.awaitLead(ctx, l, s.log.With("store", s.name)); err != nil {
		return e.leadFailed(err)
	}
	if e.readOnly.Swap(false) {
		e.pool.Reset() // its connections may be to the server of before
	}
	working, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		e.watchLead(working, l, cancel)
	}()
	err = work(working)
	cancel(nil)
	<-watched
	if cause := context.Cause(working); errors.Is(cause, errLeadLost) {
		return e.leadFailed(cause)
	}
	return err
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	_ = conn.Close(closing)
}

// leadFailed converts an error. After ErrReadOnly, the next leader resets the pool.
func (e *postgresEngine) leadFailed(err error) error {
	if errors.Is(err, ErrReadOnly) {
		e.readOnly.Store(true)
	}
	if errors.Is(err, ErrReadOnly) || errors.Is(err, errNoSession) {
		return collections.Unusable(err)
	}
	return e.failed(err)
}

// awaitLead tries to acquire the lock until it succeeds. It does not wait in the server, because the connection may break. Before,
// it checks the connection, because a pooler that does not keep sessions would not release the lock.
func (e *postgresEngine) awaitLead(ctx context.Context, l *leader, log *slog.Logger) error {
	if err := e.expectSessions(ctx, l); err != nil {
		return err
	}
	for holder := ""; ; {
		if _, err := l.check(ctx); err != nil {
			return err
		}
		var acquired bool
		err := answered(ctx, func(ctx context.Context) error { return l.QueryRow(ctx, tryLead, leaderLock).Scan(&acquired) })
		if err == nil && acquired {
			if held, err := l.check(ctx); err != nil || !held {
				return errors.Join(err, fmt.Errorf("%w: another backend has it", errNoSession))
			}
			return nil
		}
		if err != nil {
			return err
		}
		var holds string
		err = answered(ctx, func(ctx context.Context) error { return l.QueryRow(ctx, selectHolder, leaderLock).Scan(&holds) })
		if err == nil && holds != holder {
			holder = holds
			log.Info("waiting for the indexer that holds the lock", "holder", holder)
		}
		if err := upstream.Sleep(ctx, leadInterval); err != nil {
			return err
		}
	}
}

// expectSessions fails with errNoSession if connections are not sessions, and with ErrReadOnly if they cannot write.
func (e *postgresEngine) expectSessions(ctx context.Context, l *leader) error {
	for range 3 { // other clients of a pooler may change which backend it used last
		if _, err := l.check(ctx); err != nil {
			return err
		}
		if err := answered(ctx, func(ctx context.Context) error { return e.checkSession(ctx, l) }); err != nil {
			return err
		}
	}
	return nil
}

// beginImport refuses a pooler that does not keep sessions, because an import writes to a temporary table of its session. It is
// called before the import has a connection. If it cannot find out, the import may begin.
func (e *postgresEngine) beginImport(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return nil // a session pool may have only one connection
	}
	defer closeConn(ctx, conn)
	if err := e.expectSessions(ctx, &leader{Conn: conn}); errors.Is(err, errNoSession) {
		return e.leadFailed(err)
	}
	return nil
}

// checkSession returns errNoSession if a statement of another client's connection runs in the same backend. A pooler that does
// not keep sessions gives it the backend that was used last, or in turn.
func (e *postgresEngine) checkSession(ctx context.Context, l *leader) error {
	var other int32
	if err := e.pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&other); err != nil {
		return err
	}
	if other == l.backend {
		return errNoSession
	}
	return nil
}

// check reports whether the session holds the lock. It fails with ErrReadOnly or errNoSession if the session cannot be used.
func (l *leader) check(ctx context.Context) (held bool, err error) {
	var backend int32
	var readOnly bool
	err = answered(ctx, func(ctx context.Context) error {
		return l.QueryRow(ctx, selectLead, leaderLock).Scan(&backend, &readOnly, &held)
	})
	switch {
	case err != nil:
		return false, err
	case readOnly:
		return false, ErrReadOnly
	case l.backend != 0 && l.backend != backend:
		return false, errNoSession
	}
	l.backend = backend
	return held, nil
}

// watchLead cancels the work if the connection breaks, cannot write, or no longer holds the lock, or if another connection could
// not write.
func (e *postgresEngine) watchLead(ctx context.Context, l *leader, end context.CancelCauseFunc) {
	for upstream.Sleep(ctx, leadInterval) == nil {
		held, err := l.check(ctx)
		switch {
		case err == nil && !held:
			err = errNoSession
		case err == nil && e.readOnly.Load():
			err = ErrReadOnly
		}
		if err != nil && ctx.Err() == nil {
			end(fmt.Errorf("%w: %w", errLeadLost, err))
			return
		}
	}
}

func answered(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return send(ctx)
}
