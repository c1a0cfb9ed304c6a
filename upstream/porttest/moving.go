package porttest

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Moving address behaves like a name that is resolved for each new connection: new connections reach the server that the address
// points to now, and older ones stay at their server.
type Moving struct {
	Address string

	server   atomic.Pointer[string]
	accepted atomic.Int64
}

// Move makes new connections reach another server.
func (m *Moving) Move(server string) { m.server.Store(&server) }

// Accepted returns the number of connections so far.
func (m *Moving) Accepted() int64 { return m.accepted.Load() }

// NewMoving returns an address that points to a server, until the test ends.
func NewMoving(t testing.TB, server string) *Moving {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &Moving{Address: l.Addr().String()}
	m.Move(server)
	var works sync.WaitGroup
	works.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			m.accepted.Add(1)
			works.Go(func() { forward(t.Context(), c, *m.server.Load()) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); works.Wait() })
	return m
}

// forward copies bytes between a connection and a server until one of them ends, or ctx does.
func forward(ctx context.Context, c net.Conn, server string) {
	defer c.Close()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, to}, {to, c}} {
		go func() { _, _ = io.Copy(way[0], way[1]); ended <- struct{}{} }()
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}
