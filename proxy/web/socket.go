package web

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A socket notes when its client was last active, and since when it does not take
// what is written to it.
type socket struct {
	net.Conn
	onClose func()
	active  atomic.Int64 // Unix time in nanoseconds
	writing atomic.Int64 // when the write in progress began, as active; 0: none is
	busy    atomic.Bool  // net/http has a request that is not answered yet
	calls   atomic.Int64 // of a protocol that has a server of its own, which are not answered yet
	streams streams      // of HTTP/2
}

func newSocket(c net.Conn, onClose func()) *socket {
	s := &socket{Conn: c, onClose: sync.OnceFunc(onClose)}
	s.Heard(time.Now())
	return s
}

// Close closes the descriptor. It returns when that is closed.
func (s *socket) Close() error {
	defer s.onClose()
	return s.Conn.Close()
}

// Heard notes when something came from the client.
func (s *socket) Heard(at time.Time) { s.active.Store(at.UnixNano()) }

// Read notes the time of what it reads.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.Heard(time.Now())
	}
	return n, err
}

// SyscallConn is that of the connection below.
func (s *socket) SyscallConn() (syscall.RawConn, error) {
	if c, ok := s.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// follow notes whether a request is being answered, as one is for as long as a
// connection is another protocol's. A client whose answer is sent has all its time to
// say the next thing.
func (s *socket) follow(state http.ConnState) {
	if state == http.StateIdle {
		s.Heard(time.Now())
	}
	s.busy.Store(state == http.StateActive || state == http.StateHijacked)
}

// Idle says since when nothing came from the client; not idle is a connection
// whose request is being answered.
func (s *socket) Idle() (since time.Time, idle bool) {
	return time.Unix(0, s.active.Load()), !s.busy.Load() && s.calls.Load() == 0 && s.writing.Load() == 0
}

// Begin notes a call that is answered by a server that does not tell of its connections as
// http.Server does, and End that it is answered.
func (s *socket) Begin() { s.calls.Add(1) }

// End ends what Begin began.
func (s *socket) End() {
	s.Heard(time.Now())
	s.calls.Add(-1)
}

// Sending notes that such a server sends what may have to wait for the client, and Sent that
// it is sent.
func (s *socket) Sending() { s.streams.note(0, 1) }

// Sent ends what Sending began.
func (s *socket) Sent() { s.streams.note(0, -1) }

// A client that takes less than writePiece in stallTime does not read: the kernel
// holds some hundred kilobytes for it besides.
const (
	writePiece = 64 << 10
	stallTime  = time.Second
)

// Stalled says since when the client takes nothing of what is written to it; not
// stalled is a connection to which nothing is written, or was not for long.
func (s *socket) Stalled() (since time.Time, stalled bool) {
	since, waiting := s.streams.waiting(s.busy.Load())
	if began := s.writing.Load(); began != 0 {
		since, waiting = time.Unix(0, began), true
	}
	return since, waiting && time.Since(since) >= stallTime
}

// Write writes what the kernel takes at once of a long p, and the rest in pieces, so that
// a client that reads slowly is told from one that does not read.
func (s *socket) Write(p []byte) (n int, err error) {
	defer s.writing.Store(0)
	if len(p) > writePiece {
		if n = writeAtOnce(s, p); n == len(p) {
			return n, nil
		}
	}
	for {
		s.writing.Store(time.Now().UnixNano())
		m, err := s.Conn.Write(p[n:min(len(p), n+writePiece)])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// WriteBuffers writes all of the pieces, and the first 64 KiB of the last one, in
// one system call, where the connection below can.
func (s *socket) WriteBuffers(pieces *net.Buffers) (int64, error) {
	defer s.writing.Store(0)
	var rest []byte
	if last := &(*pieces)[len(*pieces)-1]; len(*last) > writePiece {
		*last, rest = (*last)[:writePiece], (*last)[writePiece:]
	}
	s.writing.Store(time.Now().UnixNano())
	n, err := pieces.WriteTo(s.Conn)
	if err != nil || len(rest) == 0 {
		return n, err
	}
	m, err := s.Write(rest)
	return n + int64(m), err
}

// CloseWrite closes the connection to the client alone, as http.Server does
// before it leaves a client that is still sending.
func (s *socket) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
