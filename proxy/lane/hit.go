package lane

import (
	"net"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
)

// A Handler answers the requests of one key, from memory alone. Many connections use it at
// the same time.
type Handler interface {
	// Answer appends the answer's head to hit.Head and sets hit.Body. It neither
	// waits nor fails: where memory alone does not answer, it returns false and
	// has had no effect.
	Answer(hit *Hit) bool
	// Sent is called once the answer is written, or cannot be.
	Sent(hit *Hit)
}

// A Hit is one request that a Handler answers. It is the Handler's until Sent returns.
type Hit struct {
	Start   time.Time      // when the request came
	Request *heads.Request // whose texts are good until Sent returns
	Conn    *Conn          // the client's
	Head    []byte         // of the answer, with the empty line at its end
	Body    []byte         // not copied unless it is short, and not changed
	Note    any            // the Handler's own, kept from one hit to the next

	key     []byte // of the request
	pieces  [2][]byte
	buffers net.Buffers   // pieces, while they are written
	room    [4 << 10]byte // for what is read, which many connections find in the processor's caches
}

// release gives h back. What refers to its room, or an answer, would last as long as the connection.
func (h *Hit) release(c *Conn) {
	c.request.Forget()
	h.Request, h.Conn, h.Body = nil, nil, nil
	hits.Put(h)
}

var hits = sync.Pool{New: func() any { return &Hit{Head: make([]byte, 0, 2<<10)} }}

// answeredBy declines for a handler that panics: net/http's is about to
// do so, too, and what it says is logged and answered.
func (h *Hit) answeredBy(s Handler) bool {
	defer func() { _ = recover() }() // false is returned then
	return s.Answer(h)
}

// A buffersWriter is a connection around one that can write several pieces at
// once, which net.Buffers does not see.
type buffersWriter interface {
	WriteBuffers(pieces *net.Buffers) (int64, error)
}

// copied is the longest body, in bytes, that is copied behind the head to be written with it: where it is
// short, that takes less than telling the kernel of two pieces.
const copied = 2 << 10

// writtenAtOnce is how much of a body is written without telling the Go scheduler, which it keeps from
// its work meanwhile.
const writtenAtOnce = 64 << 10

// write writes the answer in one system call if the client takes it at once, and has the connection below
// wait to write the rest.
func (h *Hit) write() error {
	d := &h.Conn.direct
	if len(h.Body) <= copied || d.Socket == nil && len(h.Body) <= conn.Uncounted {
		h.Head, h.Body = append(h.Head, h.Body...), nil
	}
	written := 0
	if d.Socket != nil {
		n, err := d.TryWrite(d.fd, h.Head, h.Body[:min(len(h.Body), writtenAtOnce)])
		if written = max(0, n); err == nil && written == len(h.Head)+len(h.Body) {
			return nil
		}
	}
	return h.writeRest(written)
}

// writeRest writes what is behind the bytes that are written.
func (h *Hit) writeRest(written int) (err error) {
	c, head := h.Conn, h.Head[min(written, len(h.Head)):]
	body := h.Body[written-len(h.Head)+len(head):]
	if c.direct.Socket != nil {
		_ = c.Conn.SetWriteDeadline(after(h.Start, c.lane.o.WriteTimeout))
		c.deadline.wait(c) // so that what comes meanwhile is looked for before its deadline is
	}
	if c.client != nil && len(h.Body) > conn.Uncounted {
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
	if whole, ok := c.Conn.(buffersWriter); ok {
		_, err = whole.WriteBuffers(&h.buffers)
	} else {
		_, err = h.buffers.WriteTo(c.Conn)
	}
	h.pieces = [2][]byte{}
	return err
}
