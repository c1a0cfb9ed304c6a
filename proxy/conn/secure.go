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

// A secureConn is an HTTP/1 connection on TLS, as http.Server sees it. The fast lane and the write buffer are above TLS.
type secureConn struct {
	*Conn
	tls *tls.Conn
}

// ConnectionState sets http.Request.TLS.
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// Secure does the TLS handshake on a connection without a lane, and returns the connection for http.Server. The zero
// deadline means none. A plain HTTP request gets a 400. After an error the connection is closed.
func Secure(ctx context.Context, c *Conn, config *tls.Config, lane Lane, deadline time.Time) (net.Conn, error) {
	c.carriesTLS, c.records = true, &records{}
	over := tls.Server(c, config)
	_ = c.SetDeadline(deadline)
	if err := over.HandshakeContext(ctx); err != nil {
		refusePlain(err)
		return nil, errors.Join(err, c.Close())
	}
	_ = c.SetDeadline(time.Time{})
	if over.ConnectionState().NegotiatedProtocol == "h2" {
		c.lane, c.records.isHTTP2 = lane, true
		return over, nil
	}
	return &secureConn{newConn(c.socket, &tlsTransport{Conn: over, below: c}, lane), over}, nil
}

// refusePlain responds to a plain HTTP request as net/http does.
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

// tlsTransport writes several TLS records in one system call.
type tlsTransport struct {
	*tls.Conn
	below *Conn
}

func (t *tlsTransport) Write(p []byte) (int, error) {
	t.below.records.collect()
	n, err := t.Conn.Write(p)
	return n, errors.Join(err, t.below.records.send(t.below.socket))
}

// Close never blocks, because http.Server.Shutdown and the listener close one connection after the other. It sends TLS's
// alert only if no write is in progress and the socket has room.
func (t *tlsTransport) Close() error {
	if t.below.writing.Load() != 0 {
		return t.below.socket.Close()
	}
	t.below.records.collect()
	return t.Conn.Close()
}

func (t *tlsTransport) WriteBuffers(pieces *net.Buffers) (n int64, err error) {
	t.below.records.collect()
	for _, p := range *pieces {
		var m int
		m, err = t.Conn.Write(p)
		if n += int64(m); err != nil {
			break
		}
	}
	return n, errors.Join(err, t.below.records.send(t.below.socket))
}

// records collects TLS records while a response is written.
type records struct {
	isHTTP2    bool       // the connection has HTTP/2: records are collected until other goroutines have run
	mu         sync.Mutex // crypto/tls also writes alerts and handshake messages
	collecting bool
	text       *[]byte // nil if empty
}

// http2Buffers are small, because a client that does not read retains one.
var recordBuffers, http2Buffers = bufferPool(writePiece), bufferPool(8 << 10)

func bufferPool(size int) *sync.Pool {
	return &sync.Pool{New: func() any { buffer := make([]byte, 0, size); return &buffer }}
}

func (r *records) pool() *sync.Pool {
	if r.isHTTP2 {
		return http2Buffers
	}
	return recordBuffers
}

func (r *records) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collecting = true
}

// write sends a record, or collects it if it fits.
func (r *records) write(to *socket, p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.collecting {
		if !r.isHTTP2 {
			return to.Write(p)
		}
		r.collecting = true
		go r.sendLater(to)
	}
	if r.text == nil {
		r.text = r.pool().Get().(*[]byte) //nolint:forcetypeassert // the pool has no others
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

// sendLater sends the collected records after other goroutines have run. These often write more: net/http writes the
// headers of a response before the handler writes the body.
func (r *records) sendLater(to *socket) {
	runtime.Gosched()
	if r.send(to) != nil {
		_ = to.Close() // net/http believes that the records were sent
	}
}

func (r *records) send(to *socket) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collecting = false
	if r.text == nil {
		return nil
	}
	err := r.flush(to)
	r.pool().Put(r.text)
	r.text = nil
	return err
}

// sendLast sends the records that crypto/tls writes before it closes the connection. For HTTP/1 that is only an alert.
func (r *records) sendLast(to *socket) {
	if r.mu.Lock(); !r.isHTTP2 && r.text != nil {
		writeAtOnce(to, *r.text)
		*r.text = (*r.text)[:0]
	}
	r.mu.Unlock()
	_ = r.send(to) // fails only if the client has disconnected
}

func (r *records) flush(to *socket) error {
	if len(*r.text) == 0 {
		return nil
	}
	_, err := to.Write(*r.text)
	*r.text = (*r.text)[:0]
	return err
}
