package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
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
		c.fast = fast
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
	mu         sync.Mutex // TLS writes of its own accord, too
	collecting bool
	text       *[]byte // nil: none
}

var recordRooms = sync.Pool{New: func() any { room := make([]byte, 0, writePiece); return &room }}

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
		return to.Write(p)
	}
	if r.text == nil {
		r.text = recordRooms.Get().(*[]byte) //nolint:forcetypeassert // the pool has no others
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

// send sends what was collected.
func (r *records) send(to *socket) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collecting = false
	if r.text == nil {
		return nil
	}
	err := r.flush(to)
	recordRooms.Put(r.text)
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
