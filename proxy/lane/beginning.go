package lane

import (
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/lane/heads"
)

// A beginning is what has come of a request, while the rest is waited for: many clients send the
// body of a POST a moment after its head.
type beginning struct {
	n    int
	text [heads.MaxHead + heads.MaxBody]byte
}

var beginnings = sync.Pool{New: func() any { return new(beginning) }}

// maxHeld is how many beginnings are held at a time: they count in no bound of memory. Net/http waits
// for the rest of the others.
const maxHeld = 256

// restTime is how long the rest of a request is waited for. Then net/http gets what has come, and gives
// the client its own time.
const restTime = time.Second

// more adds n bytes that were read into its room.
func (b *beginning) more(n int) []byte {
	b.n += n
	return b.text[:b.n]
}

// room is where to read: behind what is held, or in p.
func (c *Conn) room(p []byte) []byte {
	if c.held == nil {
		return p
	}
	return c.held.text[c.held.n:]
}

// hold keeps the beginning of a request, unless too many are held. One that is held leaves room for the
// rest: heads and bodies have their bounds.
func (c *Conn) hold(text []byte, now time.Time) (ok bool) {
	if c.held == nil {
		if c.lane.held.Add(1) > maxHeld {
			c.lane.held.Add(-1)
			return false
		}
		c.held = beginnings.Get().(*beginning) //nolint:forcetypeassert // the pool has no others
		c.deadline.shorten(c, now.Add(restTime))
	}
	c.held.n = copy(c.held.text[:], text)
	return true
}

// drop ends holding.
func (c *Conn) drop() {
	if c.held != nil {
		beginnings.Put(c.held)
		c.held = nil
		c.lane.held.Add(-1)
	}
}

// release moves what is left of the bytes that came to p, for net/http, of which the first request
// is the beginning, and says how many there are. What is behind that request comes after it.
func (c *Conn) release(p, left []byte, first int) int {
	n := copy(p, left[:first])
	if n < len(left) {
		c.ahead.put(left[n:], first-n)
	}
	c.drop()
	return n
}

// giveUp hands over the beginning of a request whose rest does not come.
func (c *Conn) giveUp(p []byte) int {
	text := c.held.text[:c.held.n]
	return c.release(p, text, len(text))
}
