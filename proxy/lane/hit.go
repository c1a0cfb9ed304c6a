package lane

import (
	"net"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/web"
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

	pieces  [2][]byte
	buffers net.Buffers // pieces, while they are written
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

// write writes the answer in one system call. What is short is copied for that.
func (h *Hit) write() (err error) {
	conn := h.Conn
	if len(h.Body) <= web.Uncounted {
		h.Head, h.Body = append(h.Head, h.Body...), nil
		if conn.direct != nil {
			return conn.direct.write(h.Head)
		}
		_, err = conn.Conn.Write(h.Head)
		return err
	}
	if conn.client != nil {
		conn.client.BeginBody(h.Body)
		defer conn.client.EndBody(h.Body)
	}
	h.pieces = [2][]byte{h.Head, h.Body}
	h.buffers = h.pieces[:]
	if whole, ok := conn.Conn.(buffersWriter); ok {
		_, err = whole.WriteBuffers(&h.buffers)
	} else {
		_, err = h.buffers.WriteTo(conn.Conn)
	}
	h.pieces = [2][]byte{}
	return err
}
