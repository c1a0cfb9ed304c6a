package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream"
)

// tryLead tries to acquire the lock leaderLock, which is separate for each schema.
const tryLead = `SELECT pg_try_advisory_lock(hashtextextended(current_schema(), $1))`

// leadInterval is the time between two attempts to acquire the lock, and between two checks of its connection.
const leadInterval = time.Second

// setKeepalive makes the server release the lock about 15 s after a host has disappeared, instead of hours, because a
// disappeared host does not close its connections.
const setKeepalive = `SELECT set_config('tcp_keepalives_idle', '5', false),
	set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '2', false),
	set_config('tcp_user_timeout', '15000', false)`

// errLeadLost is the cause of a context that ended because the lock was lost.
var errLeadLost = errors.New("collections: the connection that holds the indexer's lock broke")

// lead holds the lock on a separate connection, so the server releases it however the process ends.
func (e *postgresEngine) lead(ctx context.Context, work func(context.Context) error) error {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return e.failed(err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	_ = answered(ctx, func(ctx context.Context) error { // optional
		_, err := conn.Exec(ctx, setKeepalive)
		return err
	})
	if err := awaitLead(ctx, conn); err != nil {
		return e.failed(err)
	}
	working, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchLead(working, conn, cancel)
	}()
	err = work(working)
	cancel(nil)
	<-watched
	if cause := context.Cause(working); errors.Is(cause, errLeadLost) {
		return e.failed(cause)
	}
	return err
}

// awaitLead tries to acquire the lock until it succeeds. It does not wait in the server, because the connection may break.
func awaitLead(ctx context.Context, conn *pgx.Conn) error {
	for {
		var acquired bool
		err := answered(ctx, func(ctx context.Context) error {
			return conn.QueryRow(ctx, tryLead, leaderLock).Scan(&acquired)
		})
		if err != nil {
			return err
		}
		if acquired {
			return nil
		}
		if err := upstream.Sleep(ctx, leadInterval); err != nil {
			return err
		}
	}
}

// watchLead cancels the work if the connection breaks.
func watchLead(ctx context.Context, conn *pgx.Conn, end context.CancelCauseFunc) {
	for upstream.Sleep(ctx, leadInterval) == nil {
		if err := answered(ctx, conn.Ping); err != nil && ctx.Err() == nil {
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
