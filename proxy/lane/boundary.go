package lane

import "net/http"

// A boundary determines whether net/http has consumed the bytes it was given, completely and as a single request. The
// state StateIdle is not enough: net/http's buffers may hold a byte of the next request.
//
// The goroutine that reads calls addBytes and the one that serves calls addRequest, possibly at the same time, so they
// use different fields.
type boundary struct {
	// Written by addBytes.
	total     int64 // bytes given
	head      int64 // length of the head; 0 before its end
	line      int64 // length of the current line so far
	latest    byte  // last byte given
	ambiguous bool  // parsers do not agree where the head ends

	// Written by addRequest.
	requests int
	sized    bool // the body has the announced length, and the client does not wait for 100 Continue
	length   int64
}

// addBytes records bytes given to net/http. Folded lines, empty lines before the request and line ends without a carriage
// return are ambiguous.
func (b *boundary) addBytes(p []byte) {
	for i, c := range p {
		if b.head > 0 || b.ambiguous {
			break
		}
		switch {
		case c == '\n' && (b.line == 0 || b.latest != '\r'), b.line == 0 && (c == ' ' || c == '\t'):
			b.ambiguous = true
		case c == '\n' && b.line == 1:
			b.head = b.total + int64(i) + 1
			b.ambiguous = b.head == 2
		case c == '\n':
			b.line = 0
		default:
			b.line++
		}
		b.latest = c
	}
	if b.total += int64(len(p)); len(p) > 0 {
		b.latest = p[len(p)-1]
	}
}

// addRequest records a request that net/http has parsed.
func (b *boundary) addRequest(r *http.Request) {
	b.requests++
	b.length = r.ContentLength
	b.sized = r.ContentLength >= 0 && len(r.TransferEncoding) == 0 && r.Header["Expect"] == nil
}

// excess returns how many bytes of the next request net/http holds when it becomes idle. ok is false if that is unknown.
func (b *boundary) excess() (n int64, ok bool) {
	return b.total - b.head - b.length, b.head > 0 && !b.ambiguous && b.requests == 1 && b.sized
}
