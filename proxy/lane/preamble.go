package lane

import "net"

// preamble has net/http treat what precedes a request as if it had seen the one
// before. It takes nothing for a request that is shorter than four bytes, but
// for the first on a connection; and after a POST, and only there, it passes over
// empty lines among these four. Its last request is not always the client's.
type preamble struct {
	post    bool // net/http's last request was a POST
	own     bool // the client's last one was the lane's
	ownPost bool // and a POST
	passed  bool // empty lines after it were passed over
}

const leadLength = 4

// answered notes a request that the lane answered.
func (l *preamble) answered(post bool) { l.own, l.ownPost, l.passed = true, post, false }

// called notes one that net/http has parsed.
func (l *preamble) called(post bool) { l.own, l.post = false, post }

// adjust makes of the first n bytes in p what net/http understands as they are
// meant, and returns how many they are then; 0 if it would have passed over them.
// It may have to read on for that.
func (l *preamble) adjust(c *Conn, p []byte, n int) (int, error) {
	conn, fresh := c.Conn, c.deadline.fresh // net/http waits for its first request
	if !l.own {
		return n, nil
	}
	if !l.passed {
		var err error
		if fresh || emptyLines(p[:n]) > 0 && l.ownPost != l.post {
			if n, err = fill(conn, p, n); err != nil {
				return 0, err
			}
		}
		lead := emptyLines(p[:n])
		switch {
		case lead == 0, l.ownPost == l.post:
			return n, nil
		case l.post:
			c.ahead.put(append([]byte("\r\n\r\n"), p[:n]...), 0) // to be passed over; the client's are not to be
			return c.ahead.read(p), nil
		}
		l.passed = true
		n = copy(p, p[lead:n])
	}
	return pad(conn, fresh, p, n), nil
}

// pad makes up for bytes that were passed over, of which net/http has not seen
// that they were there.
func pad(conn net.Conn, fresh bool, p []byte, n int) int {
	if n == 0 || fresh {
		return n
	}
	n, err := fill(conn, p, n)
	if err != nil {
		n += copy(p[n:], "\r\n\r\n") // the request ends here, and is malformed
	}
	return n
}

// fill reads until there are enough bytes to be taken for a request.
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

// emptyLines counts the bytes of empty lines among the first four.
func emptyLines(p []byte) (n int) {
	for n < min(len(p), leadLength) && (p[n] == '\r' || p[n] == '\n') {
		n++
	}
	return n
}
