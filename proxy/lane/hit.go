package lane

import (
	"net"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
)

// A Handler answers requests with one key from memory. It must be safe for concurrent use.
type Handler interface {
	// Respond appends the head of the response to hit.Head and sets hit.Body. It must not block. If memory does not have
	// the response it returns false and has no effect.
	Respond(hit *Hit) bool
	// Done is called after the response was written, or the write failed.
	Done(hit *Hit)
}

// A Hit is a request that a Handler answers. It is valid until Done returns.
type Hit struct {
	Start   time.Time      // arrival of the request
	Request *heads.Request // its strings are valid until Done returns
	Conn    *Conn          // the client's connection
	Head    []byte         // head of the response, including the empty line at the end
	Body    []byte         // body of the response; not modified
	State   any            // for the Handler; retained between hits

	key     []byte // of the request
	pieces  [2][]byte
	buffers net.Buffers   // pieces, while they are written
	buffer  [4 << 10]byte // for reads; shared by connections through the pool, which saves cache misses
}

// release returns h to the pool. It drops references to the buffer and to the response, which would otherwise live as
// long as the connection.
func (h *Hit) release(c *Conn) {
	c.request.Forget()
	h.Request, h.Conn, h.Body = nil, nil, nil
	hits.Put(h)
}

var hits = sync.Pool{New: func() any { return &Hit{Head: make([]byte, 0, 2<<10)} }}

// tryHandler returns false if the handler panics. net/http's handler then panics as well, and reports the panic.
func (h *Hit) tryHandler(known Handler) bool {
	defer func() { _ = recover() }() // returns false
	return known.Respond(h)
}

// maxCopied is the maximum length of a body that is appended to the head: copying a short body is faster than writing two
// buffers.
const maxCopied = 2 << 10

// maxDirectWrite limits the bytes of a body in a direct write, which blocks a thread of the Go scheduler.
const maxDirectWrite = 64 << 10

// write writes the response in one system call if the socket's buffer has room, and otherwise blocks for the rest.
func (h *Hit) write() error {
	d := &h.Conn.direct
	if len(h.Body) <= maxCopied || d.Socket == nil && len(h.Body) <= conn.MaxUncounted {
		h.Head, h.Body = append(h.Head, h.Body...), nil
	}
	written := 0
	if d.Socket != nil {
		n, err := d.TryWrite(d.fd, h.Head, h.Body[:min(len(h.Body), maxDirectWrite)])
		if written = max(0, n); err == nil && written == len(h.Head)+len(h.Body) {
			return nil
		}
	}
	return h.writeRest(written)
}

// writeRest writes the response without its first written bytes.
func (h *Hit) writeRest(written int) (err error) {
	c, head := h.Conn, h.Head[min(written, len(h.Head)):]
	body := h.Body[max(0, written-len(h.Head)):]
	if c.direct.Socket != nil {
		_ = c.Conn.SetWriteDeadline(after(h.Start, c.lane.o.WriteTimeout))
		c.deadline.restore(c) // requests that arrive during the write must be read before the deadline
	}
	if c.client != nil && len(h.Body) > conn.MaxUncounted {
		c.client.BeginBody(h.Body)
		defer c.client.EndBody(h.Body)
	}
	if len(head) == 0 {
		head, body = body, nil
	}
	if len(body) == 0 {
		_, err = c.Conn.Write(head)
		return err
	}
	h.pieces = [2][]byte{head, body}
	h.buffers = h.pieces[:]
	// net.Buffers does not detect that a wrapped connection can write several buffers at once.
	if whole, ok := c.Conn.(interface {
		WriteBuffers(pieces *net.Buffers) (int64, error)
	}); ok {
		_, err = whole.WriteBuffers(&h.buffers)
	} else {
		_, err = h.buffers.WriteTo(c.Conn)
	}
	h.pieces = [2][]byte{}
	return err
}
