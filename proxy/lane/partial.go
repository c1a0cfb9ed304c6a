package lane

import (
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/lane/heads"
)

// A partialRequest is the beginning of a request whose rest has not arrived. Many clients send the body of a POST a
// moment after its head.
type partialRequest struct {
	n    int
	text [heads.MaxHead + heads.MaxBody]byte
}

var partials = sync.Pool{New: func() any { return new(partialRequest) }}

// maxPartials limits partial requests, because the memory budget does not include them. net/http waits for the rest of
// the others.
const maxPartials = 256

// restTimeout is how long the lane waits for the rest of a request. Then net/http gets the beginning, and applies its own
// timeouts.
const restTimeout = time.Second

// readBuffer returns the buffer for the next read: the free part of the partial request, or p.
func (c *Conn) readBuffer(p []byte) []byte {
	if c.partial == nil {
		return p
	}
	return c.partial.text[c.partial.n:]
}

// holdPartial stores a partial request. It returns false if the lane holds too many. Parse limits heads and bodies, so a
// request always fits.
func (c *Conn) holdPartial(text []byte, now time.Time) (ok bool) {
	if c.partial == nil {
		if c.lane.partials.Add(1) > maxPartials {
			c.lane.partials.Add(-1)
			return false
		}
		c.partial = partials.Get().(*partialRequest) //nolint:forcetypeassert // the pool has no others
		c.deadline.shorten(c, now.Add(restTimeout))
	}
	c.partial.n = copy(c.partial.text[:], text)
	return true
}

func (c *Conn) dropPartial() {
	if c.partial != nil {
		partials.Put(c.partial)
		c.partial = nil
		c.lane.partials.Add(-1)
	}
}

// moveTo copies the first request of left, of length first, to p for net/http, and returns the number of bytes copied.
// readOn returns the rest.
func (c *Conn) moveTo(p, left []byte, first int) int {
	n := copy(p, left[:first])
	if n < len(left) {
		c.ahead.prepend(left[n:], first-n)
	}
	c.dropPartial()
	return n
}
