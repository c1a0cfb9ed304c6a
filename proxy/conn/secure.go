package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// A secureConn is a connection of HTTP/1 on TLS, as http.Server sees it: the fast lane
// and what collects an answer are above TLS, as they are where there is none.
type secureConn struct {
	*Conn
	tls *tls.Conn
}

// ConnectionState is for http.Server, which tells it in http.Request.TLS.
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// Secure does the handshake of TLS on a connection without a lane, and gives what http.Server is to have:
// on is the connection of ours in it. A client that speaks plain HTTP is told so. After an error the
// connection is closed.
func Secure(ctx context.Context, c *Conn, config *tls.Config, fast Lane, timeout time.Duration) (server net.Conn, on *Conn, err error) {
	c.beneath, c.records = true, &records{}
	over := tls.Server(c, config)
	if timeout > 0 {
		_ = c.SetDeadline(time.Now().Add(timeout))
	}
	if err := over.HandshakeContext(ctx); err != nil {
		refusePlain(err)
		return nil, nil, errors.Join(err, c.Close())
	}
	_ = c.SetDeadline(time.Time{})
	if over.ConnectionState().NegotiatedProtocol == "h2" {
		c.fast, c.records.later = fast, true
		return over, c, nil
	}
	on = newConn(c.socket, &secured{Conn: over, below: c}, fast)
	return &secureConn{on, over}, on, nil
}

// refusePlain tells a client that speaks HTTP without TLS, in the words of net/http.
func refusePlain(err error) {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	switch string(header.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(header.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
}

// secured writes an answer in few system calls: TLS would make one of each of its
// records.
type secured struct {
	*tls.Conn
	below *Conn
}

func (s *secured) Write(p []byte) (int, error) {
	s.below.records.collect()
	n, err := s.Conn.Write(p)
	return n, errors.Join(err, s.below.records.send(s.below.socket))
}

// WriteBuffers writes all pieces.
func (s *secured) WriteBuffers(pieces *net.Buffers) (n int64, err error) {
	s.below.records.collect()
	for _, p := range *pieces {
		var m int
		m, err = s.Conn.Write(p)
		if n += int64(m); err != nil {
			break
		}
	}
	return n, errors.Join(err, s.below.records.send(s.below.socket))
}

// records are what TLS writes. They are collected while an answer is written.
type records struct {
	later      bool       // of HTTP/2: records are collected until other goroutines have run
	mu         sync.Mutex // TLS writes of its own accord, too
	collecting bool
	text       *[]byte // nil: none
}

// laterRooms are small, because a client that does not read keeps one.
var recordRooms, laterRooms = roomsOf(writePiece), roomsOf(8 << 10)

func roomsOf(size int) *sync.Pool {
	return &sync.Pool{New: func() any { room := make([]byte, 0, size); return &room }}
}

func (r *records) rooms() *sync.Pool {
	if r.later {
		return laterRooms
	}
	return recordRooms
}

func (r *records) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collecting = true
}

// write writes records, or collects records that have room together.
func (r *records) write(to *socket, p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.collecting {
		if !r.later {
			return to.Write(p)
		}
		r.collecting = true
		go r.sendLater(to)
	}
	if r.text == nil {
		r.text = r.rooms().Get().(*[]byte) //nolint:forcetypeassert // the pool has no others
	}
	if len(*r.text)+len(p) > cap(*r.text) {
		if err := r.flush(to); err != nil {
			return 0, err
		}
	}
	if len(p) > cap(*r.text) {
		return to.Write(p)
	}
	*r.text = append(*r.text, p...)
	return len(p), nil
}

// sendLater sends what was collected after the goroutines that are ready to run, which often write more: net/http
// writes the headers of a response before its handler may write the body.
func (r *records) sendLater(to *socket) {
	runtime.Gosched()
	if r.send(to) != nil {
		_ = to.Close() // net/http believes that the records are sent
	}
}

// send sends what was collected.
func (r *records) send(to *socket) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collecting = false
	if r.text == nil {
		return nil
	}
	err := r.flush(to)
	r.rooms().Put(r.text)
	r.text = nil
	return err
}

func (r *records) flush(to *socket) error {
	if len(*r.text) == 0 {
		return nil
	}
	_, err := to.Write(*r.text)
	*r.text = (*r.text)[:0]
	return err
}
