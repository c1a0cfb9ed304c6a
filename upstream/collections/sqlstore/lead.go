package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream"
)

// tryLead takes the lock leaderLock, of which each schema has its own.
const tryLead = `SELECT pg_try_advisory_lock(hashtextextended(current_schema(), $1))`

// leadInterval is between two tries to take the lock, and two looks at its connection.
const leadInterval = time.Second

// A host that is gone closes no connection. With this the server frees the lock after some 15 s,
// not the hours that are usual: by probes, or where an answer is not acknowledged.
const noticeGone = `SELECT set_config('tcp_keepalives_idle', '5', false),
	set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '2', false),
	set_config('tcp_user_timeout', '15000', false)`

// errLeadLost says why work was ended that no caller cancelled.
var errLeadLost = errors.New("collections: the connection that holds the indexer's lock broke")

// Lead takes a lock of a connection of its own, however the process ends.
func (e *postgresEngine) Lead(ctx context.Context, work func(context.Context) error) error {
	if err := e.ready(ctx); err != nil {
		return e.failed(err)
	}
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return e.failed(err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	_ = answered(ctx, func(ctx context.Context) error { // a server that refuses can do without
		_, err := conn.Exec(ctx, noticeGone)
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

// awaitLead asks for the lock until it is ours: to wait in the server could be in vain.
func awaitLead(ctx context.Context, conn *pgx.Conn) error {
	for {
		var ours bool
		err := answered(ctx, func(ctx context.Context) error {
			return conn.QueryRow(ctx, tryLead, leaderLock).Scan(&ours)
		})
		if err != nil {
			return err
		}
		if ours {
			return nil
		}
		if err := upstream.Sleep(ctx, leadInterval); err != nil {
			return err
		}
	}
}

// watchLead ends the work when the connection breaks.
func watchLead(ctx context.Context, conn *pgx.Conn, end context.CancelCauseFunc) {
	for upstream.Sleep(ctx, leadInterval) == nil {
		if err := answered(ctx, conn.Ping); err != nil && ctx.Err() == nil {
			end(fmt.Errorf("%w: %w", errLeadLost, err))
			return
		}
	}
}

func answered(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return ask(ctx)
}
