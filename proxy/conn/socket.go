package conn

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A socket records the client's last activity and the start of a blocked write.
type socket struct {
	net.Conn
	client  net.Addr // address reported by a proxy; nil means the peer's
	onClose func()
	active  atomic.Int64 // last activity, Unix time in nanoseconds
	writing atomic.Int64 // start of the current write, Unix time in nanoseconds; 0 without a write
	busy    atomic.Bool  // net/http is serving a request, or the connection is hijacked
	calls   atomic.Int64 // gRPC calls in progress or with unsent messages, and holds
	streams streams

	responses responses
}

func (s *socket) RemoteAddr() net.Addr {
	if s.client != nil {
		return s.client
	}
	return s.Conn.RemoteAddr()
}

func (s *socket) Close() error {
	defer s.onClose()
	return s.Conn.Close()
}

// MarkActive records the client's last activity.
func (s *socket) MarkActive(at time.Time) { s.active.Store(at.UnixNano()) }

func (s *socket) Read(p []byte) (int, error) {
	if s.streams.hasRefused.Load() && s.streams.hasRefused.Swap(false) {
		time.Sleep(slowRead)
	}
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.MarkActive(time.Now())
	}
	return n, err
}

func (s *socket) SyscallConn() (syscall.RawConn, error) {
	if c, ok := s.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Write writes as much of a long p as the kernel accepts at once, and the rest in pieces, so that Stalled can
// distinguish a slow client from one that does not read.
func (s *socket) Write(p []byte) (n int, err error) {
	defer s.writing.Store(0)
	if len(p) > writePiece {
		s.writing.Store(time.Now().UnixNano())
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

// WriteBuffers writes the pieces, up to the first 64 KiB of the last one, in one system call if possible, and then the
// rest.
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

// CloseWrite closes the sending side, as http.Server does before it closes the connection of a client that is still
// sending.
func (s *socket) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Idle reports whether the connection has no request or write in progress, and the time of the client's last activity.
func (s *socket) Idle() (since time.Time, idle bool) {
	return time.Unix(0, s.active.Load()), !s.busy.Load() && s.calls.Load() == 0 && s.writing.Load() == 0
}

// A client that reads less than writePiece in stallTime is stalled. The kernel buffers some hundred kilobytes in
// addition.
const (
	writePiece = 64 << 10
	stallTime  = time.Second
)

// Stalled reports whether a write has been blocked for stallTime, and since when. With several streams, each request or write
// that begins or ends restarts the time.
func (s *socket) Stalled() (since time.Time, stalled bool) {
	since, waiting := s.streams.waitingSince(s.busy.Load())
	if began := s.writing.Load(); began != 0 {
		since, waiting = time.Unix(0, began), true
	}
	return since, waiting && time.Since(since) >= stallTime
}
