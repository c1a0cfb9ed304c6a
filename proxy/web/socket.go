package web

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A socket notes when its client was last active.
type socket struct {
	net.Conn
	active atomic.Int64 // Unix time in nanoseconds
	busy   atomic.Bool  // net/http has a request that is not answered yet
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	s.touch()
	return s
}

func (s *socket) touch() { s.active.Store(time.Now().UnixNano()) }

// Read notes the time of what it reads.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.touch()
	}
	return n, err
}

// follow notes whether a request is being answered. A client whose answer is sent
// has all its time to say the next thing.
func (s *socket) follow(state http.ConnState) {
	if state == http.StateIdle {
		s.touch()
	}
	s.busy.Store(state == http.StateActive)
}

// Idle says since when nothing came from the client; not idle is a connection
// whose request is being answered.
func (s *socket) Idle() (since time.Time, idle bool) {
	return time.Unix(0, s.active.Load()), !s.busy.Load()
}

// WriteBuffers writes all of the pieces in one system call, where the connection
// below can.
func (s *socket) WriteBuffers(pieces *net.Buffers) (int64, error) { return pieces.WriteTo(s.Conn) }

// CloseWrite closes the connection to the client alone, as http.Server does
// before it leaves a client that is still sending.
func (s *socket) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
