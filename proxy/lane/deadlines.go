package lane

import (
	"errors"
	"os"
	"time"
)

// deadlines renews a connection's deadlines for requests that net/http does not see.
type deadlines struct {
	isNew      bool          // net/http waits for the connection's first request
	since      time.Time     // start of that wait
	laneServed bool          // the lane has served a request during that wait
	shortened  bool          // the read deadline bounds the wait for the rest of a request
	probing    bool          // the read deadline is probeTimeout, when the lane checks for EOF
	renewed    time.Time     // when renew last set the deadlines
	postpone   time.Duration // added to the next deadline that net/http sets
}

// renewal is the maximum age of a deadline: setting one takes longer than finding the response.
const renewal = time.Second

// probeTimeout is how long a client may be silent before the lane checks for EOF.
const probeTimeout = 2 * renewal

// renew sets the deadlines for the response that is about to be written and the next request. With a Socket, writeRest
// sets the write deadline, and only if the response does not fit the socket's buffer.
func (d *deadlines) renew(c *Conn, now time.Time) {
	if c.direct.Socket != nil && c.request.Close {
		return
	}
	if d.isNew && !d.laneServed {
		d.laneServed = true
		c.lane.unseen.Store(c, nil)
	}
	if now.Sub(d.renewed) < renewal && !d.shortened {
		return
	}
	idle := c.lane.o.IdleTimeout
	d.renewed, d.shortened, d.probing = now, false, c.direct.Socket != nil && (idle == 0 || idle > probeTimeout)
	if d.probing {
		idle = probeTimeout
	}
	_ = c.Conn.SetReadDeadline(after(now, idle))
	if c.direct.Socket == nil {
		_ = c.Conn.SetWriteDeadline(after(now, c.lane.o.WriteTimeout))
	}
}

// endProbe reports whether a read failed at probeTimeout. It then sets the idle timeout.
func (d *deadlines) endProbe(c *Conn, err error) bool {
	if !d.probing || c.partial != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.restore(c)
	return true
}

// restore replaces probeTimeout with the idle timeout.
func (d *deadlines) restore(c *Conn) {
	if d.probing {
		d.probing = false
		_ = c.Conn.SetReadDeadline(after(d.renewed, c.lane.o.IdleTimeout))
	}
}

func after(now time.Time, timeout time.Duration) time.Time {
	if timeout == 0 {
		return time.Time{}
	}
	return now.Add(timeout)
}

// shorten bounds the wait for the rest of a request. net/http sets its own deadline when it gets the beginning.
func (d *deadlines) shorten(c *Conn, t time.Time) {
	d.shortened, d.probing = true, false
	_ = c.Conn.SetReadDeadline(t)
}

// handOver sets the deadline that net/http expects: on a new connection, ReadHeaderTimeout.
func (d *deadlines) handOver(c *Conn) {
	shortened := d.shortened
	d.shortened = false
	switch {
	case d.isNew && d.laneServed:
		now := time.Now()
		d.laneServed, d.postpone = false, now.Sub(d.since)
		_ = c.Conn.SetReadDeadline(after(now, c.lane.o.ReadHeaderTimeout))
		c.lane.unseen.Delete(c)
	case d.isNew && shortened:
		_ = c.Conn.SetReadDeadline(after(d.since, c.lane.o.ReadHeaderTimeout))
	}
}

// SetReadDeadline sets the deadline. On a new connection net/http computes its first deadline from the start of its wait,
// so SetReadDeadline adds the time that the lane has served since.
func (c *Conn) SetReadDeadline(t time.Time) error {
	postpone := c.deadline.postpone
	if c.deadline.postpone, c.deadline.probing = 0, false; !t.IsZero() {
		t = t.Add(postpone)
	}
	return c.Conn.SetReadDeadline(t)
}
