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

// hijackRecorder records the connection that a WebSocket takes over from the server.
type hijackRecorder struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements [http.Hijacker]. It writes the status first, because Gin's writer buffers it.
func (t *hijackRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w, ok := t.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		w.WriteHeaderNow()
	}
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	t.conn = conn
	return conn, buffered, err
}

// frames are reused, because each event is assembled for every subscription.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// maxFrame is the largest message that is copied to be written at once, in bytes. The connection writes up to 64 KiB at once,
// and control frames could come between the parts of a longer frame.
const maxFrame = 60 << 10

// writeFrame writes a message of two parts with one write to the connection, which is a third cheaper than through
// the WebSocket. The WebSocket writes each control frame at once too, so frames never interleave.
func (c *conn) writeFrame(head, tail []byte) {
	size := len(head) + len(tail)
	if size > maxFrame {
		c.send(append(append(make([]byte, 0, size), head...), tail...))
		return
	}
	whole := frames.Get().(*[]byte) //nolint:forcetypeassert // the pool contains nothing else
	*whole = append(append(appendHeader((*whole)[:0], size), head...), tail...)
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closing {
		return
	}
	_ = c.raw.SetWriteDeadline(time.Now().Add(c.handler.o.Write))
	if _, err := c.raw.Write(*whole); err != nil {
		_ = c.raw.Close() // ends the reader
		return
	}
	_ = c.raw.SetWriteDeadline(time.Time{}) // the WebSocket sets its own
	frames.Put(whole)
}

// appendHeader appends the header of a frame with a complete text of up to maxFrame bytes (RFC 6455).
func appendHeader(b []byte, size int) []byte {
	const final, short = 0x80, 125
	b = append(b, final|byte(websocket.MessageText))
	if size <= short {
		return append(b, byte(size))
	}
	return binary.BigEndian.AppendUint16(append(b, short+1), uint16(size))
}
