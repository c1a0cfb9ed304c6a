package collections_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

func TestPostgresRecoversAfterOutage(t *testing.T) {
	url, server := behindProxy(t, postgrestest.Schema(t))
	s := open(t, url, collections.Options{})
	load(t, s, some(30))
	var readers sync.WaitGroup // leave several connections in the pool
	for range 8 {
		readers.Go(func() { _, _ = s.List(t.Context(), collections.Query{}) })
	}
	readers.Wait()

	server.down()
	_, err := s.List(t.Context(), collections.Query{})
	wantSilence(t, err, upstream.Unreachable)
	expect.EventuallyEqual(t, "a failed Ping", func() upstream.Kind { return upstream.KindOf(s.Ping(t.Context())) }, upstream.Unreachable)
	_, err = s.Import(t.Context(), each(some(3)))
	wantSilence(t, err, upstream.Unreachable)

	server.up(t)
	expect.Equal(t, list(t, s, collections.Query{}).Total, 30, "total")
	server.restart(t)
	expect.Equal(t, list(t, s, collections.Query{}).Total, 30, "total")
}

func TestDroppedSchemaIsCreatedAgain(t *testing.T) {
	server := postgrestest.Schema(t)
	s := open(t, server, collections.Options{})
	load(t, s, some(3))
	u := expect.Value(url.Parse(server))(t)
	schema := u.Query().Get("search_path")
	postgrestest.Execute(t, server, "DROP SCHEMA "+schema+" CASCADE; CREATE SCHEMA "+schema)
	if _, err := s.List(t.Context(), collections.Query{}); err == nil {
		t.Error("List after the schema was dropped = nil, want an error")
	}
	expect.Equal(t, list(t, s, collections.Query{}).Total, 0, "total in the new schema")
}

// If a pooler assigns connections to sessions, an idle connection is lost for others.
func TestConnectionsToPostgresAreBoundedAndReleased(t *testing.T) {
	t.Parallel()
	url := postgrestest.Schema(t)
	s := open(t, url+"&application_name=few", collections.Options{Connections: 3})
	load(t, s, some(300))
	connections := func() (n int) {
		conn := expect.Value(pgx.Connect(t.Context(), url))(t)
		defer conn.Close(t.Context())
		expect.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'few'").Scan(&n))
		return n
	}
	var readers sync.WaitGroup
	for range 30 {
		readers.Go(func() {
			for range 10 {
				if _, err := s.List(t.Context(), collections.Query{}); err != nil {
					t.Errorf("List = %v, want nil", err)
				}
			}
		})
	}
	most := 0
	for range 10 {
		most = max(most, connections())
	}
	readers.Wait()
	if most = max(most, connections()); most < 1 || most > 3 {
		t.Errorf("concurrent connections = %d, want 1 to 3", most)
	}
	expect.Eventually(t, "idle connections closed", func() bool {
		time.Sleep(100 * time.Millisecond) // each check opens a connection
		return connections() == 0
	})
}

func TestPostgresAbsentAtStart(t *testing.T) {
	url, server := behindProxy(t, postgrestest.Schema(t))
	server.down()
	var log bytes.Buffer
	s := open(t, url, collections.Options{Settings: collections.Settings{Timeout: 10 * time.Second}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "upstream unreachable") || strings.Contains(log.String(), "secret") {
		t.Errorf("log = %s, want the outage without the password", log.String())
	}
	_, err := s.List(t.Context(), collections.Query{})
	wantSilence(t, err, upstream.Unreachable)

	server.up(t)
	expect.EventuallyEqual(t, "a successful Ping", func() error { return s.Ping(t.Context()) }, nil)
	load(t, s, some(3))
	wantStored(t, s, some(3))
}

func TestHangingPostgresDoesNotDelayStart(t *testing.T) {
	t.Parallel()
	hanging := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t) // accepts connections but does not respond
	defer hanging.Close()
	s := open(t, "postgres://u:p@"+hanging.Addr().String()+"/d?sslmode=disable", collections.Options{Settings: collections.Settings{Timeout: 200 * time.Millisecond}})
	_, err := s.List(t.Context(), collections.Query{})
	wantSilence(t, err, upstream.Timeout)
}

func TestPostgresOpensWhileAnotherProcessCreatesTheSchema(t *testing.T) {
	t.Parallel()
	url := postgrestest.Schema(t)
	conn := expect.Value(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	expect.Value(conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", int64(0x7469706361636865)))(t)
	s := expect.Value(drivers.Open(t.Context(), url, collections.Options{Settings: collections.Settings{Timeout: 500 * time.Millisecond}}))(t)
	expect.NoError(t, s.Close())
}

func TestPostgresWithoutTablesIsUnusable(t *testing.T) {
	url := postgrestest.Schema(t)
	s := open(t, url, collections.Options{})
	postgrestest.Execute(t, url, "DROP TABLE collections CASCADE")
	_, err := s.List(t.Context(), collections.Query{})
	wantSilence(t, err, upstream.BadAnswer)
}

func TestPostgresNameHasNoCredentials(t *testing.T) {
	s := open(t, "postgres://user:secret@127.0.0.1:1/db?sslmode=disable", collections.Options{})
	expect.Equal(t, s.Name(), "postgres://127.0.0.1:1/db", "name")
}

func TestFailedConnectionToPostgresNamesItsAddressOnce(t *testing.T) {
	t.Parallel()
	s := open(t, "postgres://user:secret@127.0.0.1:1/db", collections.Options{})
	expect.Equal(t, s.Ping(t.Context()).Error(), collections.OriginName+" cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused", "error")
}

// A proxy is between a store and its server, and fails instead of the server.
type proxy struct {
	server, address string
	listener        net.Listener
	mu              sync.Mutex
	conns           []net.Conn
	serving         sync.WaitGroup
}

// behindProxy returns the URL of the same database behind a proxy.
func behindProxy(t *testing.T, database string) (string, *proxy) {
	u, err := url.Parse(database)
	if err != nil || u.Port() == "" {
		t.Skipf("a proxy needs a host and port in the URL (%v)", err)
	}
	p := &proxy{server: u.Host, address: porttest.Address(t)}
	p.up(t)
	t.Cleanup(p.down)
	u.Host = p.address
	return u.String(), p
}

func (p *proxy) up(t *testing.T) {
	t.Helper()
	listener := expect.Value(net.Listen("tcp", p.address))(t)
	p.listener = listener
	p.serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.relay(client) })
		}
	})
}

func (p *proxy) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	p.serving.Go(func() {
		_, _ = io.Copy(server, client)
		server.Close()
	})
	_, _ = io.Copy(client, server)
}

func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func (p *proxy) down() {
	p.listener.Close()
	p.drop()
	p.serving.Wait()
}

func (p *proxy) restart(t *testing.T) {
	p.down()
	p.up(t)
}
