package collections_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// A pooler is a pooler in transaction mode with one connection to the server.
type pooler struct {
	server *pgproto3.Frontend
	mu     sync.Mutex // held during a transaction
}

// unprepared makes connections prepare no statements.
const unprepared = "&default_query_exec_mode=exec"

// poolTransactions returns the URL of the same database behind a pooler in transaction mode, with more parameters.
func poolTransactions(t *testing.T, database, parameters string) string {
	t.Helper()
	conn := expect.Value(pgconn.Connect(t.Context(), database))(t)
	hijacked := expect.Value(conn.Hijack())(t)
	p := &pooler{server: hijacked.Frontend}
	listener := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer client.Close(); _ = p.serve(client) })
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait(); hijacked.Conn.Close() })
	u := expect.Value(url.Parse(database))(t)
	u.Host = listener.Addr().String()
	u.RawQuery += "&sslmode=disable" + parameters
	return u.String()
}

func (p *pooler) serve(conn net.Conn) error {
	client := pgproto3.NewBackend(conn, conn)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return err
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	for inTransaction := false; ; {
		m, err := client.Receive()
		if err == nil && !inTransaction {
			p.mu.Lock()
			inTransaction = true
		}
		if _, ended := m.(*pgproto3.Terminate); err != nil || ended {
			if inTransaction {
				p.mu.Unlock()
			}
			return err
		}
		p.server.Send(m)
		switch m.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
			if inTransaction, err = p.answer(client); !inTransaction {
				p.mu.Unlock()
			}
			if err != nil {
				return err
			}
		}
	}
}

// answer passes on what the server sends until it is ready.
func (p *pooler) answer(client *pgproto3.Backend) (inTransaction bool, err error) {
	if err := p.server.Flush(); err != nil {
		return false, err
	}
	for {
		m, err := p.server.Receive()
		if err != nil {
			return false, err
		}
		client.Send(m)
		if ready, ok := m.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus != 'I', client.Flush()
		}
	}
}

func TestIndexerRefusesPoolerWithoutSessions(t *testing.T) {
	t.Parallel()
	direct := postgrestest.Schema(t)
	s := open(t, poolTransactions(t, direct, unprepared), collections.Options{})
	expect.NoError(t, s.Ping(t.Context()))
	err := s.Lead(t.Context(), func(context.Context) error { t.Error("Lead called its function, want only an error"); return nil })
	wantSilence(t, err, upstream.BadAnswer)
	expect.Contains(t, err.Error(), "transaction or statement mode", "error")
	led := false
	expect.NoError(t, open(t, direct, collections.Options{}).Lead(t.Context(), func(context.Context) error { led = true; return nil }))
	expect.Equal(t, led, true, "whether the lock is free")
}

func TestImportRefusesPoolerWithoutSessions(t *testing.T) {
	t.Parallel()
	direct := postgrestest.Schema(t)
	s := open(t, poolTransactions(t, direct, unprepared), collections.Options{})
	_, err := s.Import(t.Context(), each(some(3)))
	wantSilence(t, err, upstream.BadAnswer)
	expect.Contains(t, err.Error(), "transaction or statement mode", "error")
	wantStored(t, open(t, direct, collections.Options{}), nil)
}

func TestPoolerOfPreparedStatementsIsNamed(t *testing.T) {
	t.Parallel()
	direct := postgrestest.Schema(t)
	load(t, open(t, direct, collections.Options{}), some(3))
	pooled := poolTransactions(t, direct, "")
	expect.NoError(t, open(t, pooled, collections.Options{}).Ping(t.Context()))
	_, err := drivers.Open(t.Context(), pooled, collections.Options{})
	wantSilence(t, err, upstream.BadAnswer)
	expect.Contains(t, err.Error(), "default_query_exec_mode=exec", "error")
}

func TestWaitingIndexerLogsWhoHasTheLock(t *testing.T) {
	t.Parallel()
	url := postgrestest.Schema(t)
	log := &logtest.Log{}
	first, second := open(t, url+"&application_name=leader", collections.Options{}), open(t, url, collections.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	expect.NoError(t, first.Lead(t.Context(), func(context.Context) error {
		go func() { ended <- second.Lead(ctx, func(context.Context) error { return nil }) }()
		expect.Eventually(t, "the log names the holder", func() bool {
			return strings.Contains(log.String(), "waiting for the indexer that holds the lock") && strings.Contains(log.String(), `holder="leader at 127.0.0.1, backend `)
		})
		return nil
	}))
	expect.NoError(t, <-ended)
	cancel()
}

// As after a failover that has made the server a standby: sessions cannot write, and later ones can again.
func TestIndexerReplacesReadOnlySessions(t *testing.T) {
	t.Parallel()
	server := postgrestest.Schema(t)
	u := expect.Value(url.Parse(server))(t)
	schema := u.Query().Get("search_path")
	role := schema + "_role"
	execute := func(format string) { postgrestest.Execute(t, server, fmt.Sprintf(format, role, schema)) }
	execute("CREATE ROLE %[1]s LOGIN PASSWORD 'secret'; GRANT CREATE, USAGE ON SCHEMA %[2]s TO %[1]s")
	t.Cleanup(func() { execute("DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s") })
	u.User = url.UserPassword(role, "secret")
	one := u.String() + "&pool_max_conns=1&pool_max_conn_idle_time=1h"
	load(t, open(t, one, collections.Options{}), some(3))

	execute("ALTER ROLE %[1]s SET default_transaction_read_only = on")
	waiting, leading := open(t, one, collections.Options{}), open(t, one, collections.Options{})
	err := waiting.Lead(t.Context(), func(context.Context) error { t.Error("Lead called its function, want only an error"); return nil })
	wantSilence(t, err, upstream.BadAnswer)
	expect.Contains(t, err.Error(), "target_session_attrs=read-write", "error")
	wantStored(t, waiting, some(3))
	wantStored(t, leading, some(3))

	execute("ALTER ROLE %[1]s RESET default_transaction_read_only")
	apply := func(s *collections.Store, from ledger.Cursor, to int64) error {
		return s.Lead(t.Context(), func(ctx context.Context) error {
			err := s.Apply(ctx, from, tallyTo(to))
			if err != nil {
				<-ctx.Done() // as an indexer, which tries again
			}
			return err
		})
	}
	expect.NoError(t, apply(waiting, ledger.Cursor{}, 10)) // knows since its first attempt
	wantSilence(t, apply(leading, cursorAt(10), 20), upstream.BadAnswer)
	expect.NoError(t, apply(leading, cursorAt(10), 20))
}
