package socket

import (
	"bufio"
	"encoding/binary"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// A taker keeps the connection that a WebSocket takes from the server.
type taker struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements [http.Hijacker]. Gin's writer keeps the status back until it is asked for it.
func (t *taker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w, ok := t.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		w.WriteHeaderNow()
	}
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	t.conn = conn
	return conn, buffered, err
}

// frames are reused: an event is put together for each subscription.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// maxFrame is the largest message that is copied to be written at once, in bytes.
const maxFrame = 64 << 10

// frame sends a message of two parts by one write of the connection. That is a third cheaper
// than by the WebSocket, of whose control frames, each one write too, it may stand between any two.
func (c *conn) frame(head, tail []byte) {
	size := len(head) + len(tail)
	if size > maxFrame {
		c.send(append(append(make([]byte, 0, size), head...), tail...))
		return
	}
	whole := frames.Get().(*[]byte) //nolint:forcetypeassert // the pool has no others
	*whole = append(append(appendHeader((*whole)[:0], size), head...), tail...)
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closing {
		return
	}
	_ = c.below.SetWriteDeadline(time.Now().Add(c.handler.o.Write))
	if _, err := c.below.Write(*whole); err != nil {
		_ = c.below.Close() // which ends reading
		return
	}
	_ = c.below.SetWriteDeadline(time.Time{}) // those of the WebSocket have contexts
	frames.Put(whole)
}

// appendHeader adds the header of a frame that is a whole text, as RFC 6455 has it.
func appendHeader(b []byte, size int) []byte {
	const final, short, long = 0x80, 125, 1<<16 - 1
	b = append(b, final|byte(websocket.MessageText))
	switch {
	case size <= short:
		return append(b, byte(size))
	case size <= long:
		return binary.BigEndian.AppendUint16(append(b, short+1), uint16(size))
	default:
		return binary.BigEndian.AppendUint64(append(b, short+2), uint64(size))
	}
}
