package web

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A socket notes when its client was last heard.
type socket struct {
	*net.TCPConn
	heard atomic.Int64 // Unix time in nanoseconds
	busy  atomic.Bool  // net/http has a request that is not answered yet
}

func newSocket(c *net.TCPConn) *socket {
	s := &socket{TCPConn: c}
	s.hear()
	return s
}

func (s *socket) hear() { s.heard.Store(time.Now().UnixNano()) }

// Read notes the time of what it reads.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.TCPConn.Read(p)
	if n > 0 {
		s.hear()
	}
	return n, err
}

// follow notes whether a request is being answered. A client whose answer is sent
// has all its time to say the next thing.
func (s *socket) follow(state http.ConnState) {
	if state == http.StateIdle {
		s.hear()
	}
	s.busy.Store(state == http.StateActive)
}

// Idle says since when nothing came from the client; not idle is a connection
// whose request is being answered.
func (s *socket) Idle() (since time.Time, idle bool) {
	return time.Unix(0, s.heard.Load()), !s.busy.Load()
}
