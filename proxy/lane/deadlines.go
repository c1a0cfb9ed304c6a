package lane

import "time"

// deadlines are renewed where net/http, which sets them once for each request
// of its own, does not know of a request.
type deadlines struct {
	fresh    bool      // net/http waits for the connection's first request
	began    time.Time // when it began to
	answered bool      // the lane has answered meanwhile
	short    bool      // it was shortened to wait for the rest of a request
	renewed  time.Time
	late     time.Duration // by how much net/http's next deadline is to be postponed
}

// renewal is how old a deadline may be: setting one takes longer than finding
// the answer.
const renewal = time.Second

// renew gives the answer that is about to be written, and the request after it,
// their time.
func (d *deadlines) renew(c *Conn, now time.Time) {
	if d.fresh && !d.answered {
		d.answered = true
		c.lane.track(c)
	}
	if now.Sub(d.renewed) < renewal && !d.short {
		return
	}
	d.renewed, d.short = now, false
	_ = c.Conn.SetReadDeadline(after(now, c.lane.o.IdleTimeout))
	_ = c.Conn.SetWriteDeadline(after(now, c.lane.o.WriteTimeout))
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
	d.short = true
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
	if c.deadline.late = 0; !t.IsZero() {
		t = t.Add(late)
	}
	return c.Conn.SetReadDeadline(t)
}
