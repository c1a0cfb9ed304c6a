package lane

import "net"

// preamble makes net/http treat empty lines before a request as if it had served the client's previous request. net/http
// skips empty lines only after a POST, only among the first four bytes, and waits for four bytes, except on a new
// connection. If the lane has served the client's previous request, net/http knows only an earlier one.
type preamble struct {
	netPost  bool // the last request that net/http served was a POST
	byLane   bool // the lane served the client's previous request
	lanePost bool // the last request that the lane served was a POST
	skipped  bool // empty lines after that one were skipped
}

const leadLength = 4

// adjust changes the first n bytes in p so that net/http skips empty lines as after the client's previous request, and
// returns the new length. It returns 0 if only skipped lines are left. It may read more bytes.
func (l *preamble) adjust(c *Conn, p []byte, n int) (int, error) {
	conn, isNew := c.Conn, c.deadline.isNew
	if !l.byLane {
		return n, nil
	}
	if !l.skipped {
		var err error
		if isNew || emptyLines(p[:n]) > 0 && l.lanePost != l.netPost {
			if n, err = fill(conn, p, n); err != nil {
				return 0, err
			}
		}
		lead := emptyLines(p[:n])
		switch {
		case lead == 0, l.lanePost == l.netPost:
			return n, nil
		case l.netPost:
			c.ahead.prepend(append([]byte("\r\n\r\n"), p[:n]...), 0) // net/http skips these four bytes, so it refuses the client's empty lines
			return c.ahead.read(p), nil
		}
		l.skipped = true
		n = copy(p, p[lead:n])
	}
	return pad(conn, isNew, p, n), nil
}

// pad reads until p has four bytes again: net/http waits for four, and does not know of the skipped ones.
func pad(conn net.Conn, isNew bool, p []byte, n int) int {
	if n == 0 || isNew {
		return n
	}
	n, err := fill(conn, p, n)
	if err != nil {
		n += copy(p[n:], "\r\n\r\n") // the request ends here, and is malformed
	}
	return n
}

// fill reads until p has leadLength bytes.
func fill(conn net.Conn, p []byte, n int) (int, error) {
	for n < leadLength {
		more, err := conn.Read(p[n:])
		if more == 0 {
			return n, err
		}
		n += more
	}
	return n, nil
}

// emptyLines counts the CR and LF bytes at the beginning of p, four at most.
func emptyLines(p []byte) (n int) {
	for n < min(len(p), leadLength) && (p[n] == '\r' || p[n] == '\n') {
		n++
	}
	return n
}
