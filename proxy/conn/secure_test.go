package conn_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
)

func certificates() []tls.Certificate {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates
}

// countedConn counts writes.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// http2 returns the two ends of a connection with TLS that has negotiated HTTP/2.
func http2(t *testing.T, certificates []tls.Certificate) (server net.Conn, below *countedConn, client *tls.Conn) {
	t.Helper()
	serverEnd, clientEnd := net.Pipe()
	t.Cleanup(func() { _ = clientEnd.Close() })
	below = &countedConn{Conn: serverEnd}
	client = tls.Client(clientEnd, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // of this test
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	config := &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}, SessionTicketsDisabled: true} //nolint:gosec // of this test
	server, err := conn.Secure(t.Context(), conn.New(below, nil, nil, nil), config, nil, time.Time{})
	expect.NoError(t, errors.Join(err, <-done))
	return server, below, client
}

func TestRecordsOfHTTP2ShareWrites(t *testing.T) {
	server, below, client := http2(t, certificates())
	const pairs = 1000
	before := below.writes.Load()
	go func() {
		for range 2 * pairs {
			_, _ = server.Write([]byte("f"))
		}
	}()
	expect.Value(io.ReadFull(client, make([]byte, 2*pairs)))(t)
	if n := below.writes.Load() - before; n >= 2*pairs {
		t.Errorf("%d records took %d writes, want fewer", 2*pairs, n)
	}
}

func TestClosingHTTP2SendsCollectedRecords(t *testing.T) {
	certificates := certificates()
	for range 50 {
		server, _, client := http2(t, certificates)
		go func() {
			_, _ = server.Write([]byte("last"))
			_ = server.Close()
		}()
		if got, err := io.ReadAll(client); string(got) != "last" || err != nil {
			t.Fatalf("client read %q, %v; want %q and the end of TLS", got, err, "last")
		}
	}
}

// http.Server.Shutdown would wait for each client that does not read.
func TestClosingTLSDoesNotWaitForClient(t *testing.T) {
	certificates := certificates()
	for name, isWriting := range map[string]bool{"idle": false, "with a blocked write": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serverEnd, clientEnd := net.Pipe()
				client := tls.Client(clientEnd, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // of this test
				done := make(chan error, 1)
				go func() { done <- client.Handshake() }()
				config := &tls.Config{Certificates: certificates, SessionTicketsDisabled: true} //nolint:gosec // of this test
				server, err := conn.Secure(t.Context(), conn.New(serverEnd, nil, nil, nil), config, nil, time.Time{})
				expect.NoError(t, errors.Join(err, <-done))
				if isWriting {
					go func() { _, _ = server.Write([]byte("unread")) }()
					synctest.Wait()
				}
				start := time.Now()
				expect.NoError(t, server.Close())
				if took := time.Since(start); took > 0 {
					t.Errorf("Close took %v, want no time", took)
				}
			})
		})
	}
}
