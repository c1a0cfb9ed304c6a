package lane

import (
	"errors"
	"os"
	"time"
)

// deadlines are renewed where net/http, which sets them once for each request
// of its own, does not know of a request.
type deadlines struct {
	fresh    bool      // net/http waits for the connection's first request
	began    time.Time // when it began to
	answered bool      // the lane has answered meanwhile
	short    bool      // it was shortened to wait for the rest of a request
	soon     bool      // it is when the end of what the client sends is looked for
	renewed  time.Time
	late     time.Duration // by how much net/http's next deadline must be postponed
}

// renewal is how old a deadline may be: setting one takes longer than finding
// the answer.
const renewal = time.Second

// silence is how long a client that repeats its requests may be silent before the end of what it sends is
// looked for.
const silence = 2 * renewal

// renew gives the answer that is about to be written, and the request after it,
// their time. An answer that does not go out at once gets its time then.
func (d *deadlines) renew(c *Conn, now time.Time) {
	if c.direct.Socket != nil && c.request.Close {
		return
	}
	if d.fresh && !d.answered {
		d.answered = true
		c.lane.track(c)
	}
	if now.Sub(d.renewed) < renewal && !d.short {
		return
	}
	idle := c.lane.o.IdleTimeout
	d.renewed, d.short, d.soon = now, false, c.direct.Socket != nil && (idle == 0 || idle > silence)
	if d.soon {
		idle = silence
	}
	_ = c.Conn.SetReadDeadline(after(now, idle))
	if c.direct.Socket == nil {
		_ = c.Conn.SetWriteDeadline(after(now, c.lane.o.WriteTimeout))
	}
}

// silent reports whether an error of reading is that the client has been silent, and gives it the rest of its time.
func (d *deadlines) silent(c *Conn, err error) bool {
	if !d.soon || c.held != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.wait(c)
	return true
}

// wait gives a client all its time.
func (d *deadlines) wait(c *Conn) {
	if d.soon {
		d.soon = false
		_ = c.Conn.SetReadDeadline(after(d.renewed, c.lane.o.IdleTimeout))
	}
}

func after(now time.Time, timeout time.Duration) time.Time {
	if timeout == 0 {
		return time.Time{}
	}
	return now.Add(timeout)
}

// shorten bounds the wait for the rest of a request. net/http sets its own deadline when it has the
// beginning.
func (d *deadlines) shorten(c *Conn, t time.Time) {
	d.short, d.soon = true, false
	_ = c.Conn.SetReadDeadline(t)
}

// handOver puts in force what net/http believes to be: on a new connection, that
// the time for the header has been running since it was accepted.
func (d *deadlines) handOver(c *Conn) {
	short := d.short
	d.short = false
	switch {
	case d.fresh && d.answered:
		now := time.Now()
		d.answered, d.late = false, now.Sub(d.began)
		_ = c.Conn.SetReadDeadline(after(now, c.lane.o.ReadHeaderTimeout))
		c.lane.untrack(c)
	case d.fresh && short:
		_ = c.Conn.SetReadDeadline(after(d.began, c.lane.o.ReadHeaderTimeout))
	}
}

// SetReadDeadline sets the deadline. The first one after the lane has answered on
// a new connection counts from when net/http began to wait, so it comes later.
func (c *Conn) SetReadDeadline(t time.Time) error {
	late := c.deadline.late
	if c.deadline.late, c.deadline.soon = 0, false; !t.IsZero() {
		t = t.Add(late)
	}
	return c.Conn.SetReadDeadline(t)
}
