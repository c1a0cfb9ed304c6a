package lane

import (
	"bytes"
	"net/http"
)

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
	last      byte  // last byte of that line
	latest    byte  // last byte given
	ambiguous bool  // parsers do not agree where the head ends

	// Written by addRequest.
	requests int
	sized    bool // the body has the announced length, and the client does not wait for 100 Continue
	length   int64
}

// addBytes records bytes given to net/http.
func (b *boundary) addBytes(p []byte) {
	for rest := p; b.head == 0 && !b.ambiguous && len(rest) > 0; {
		rest = b.addLine(rest, int64(len(p)-len(rest)))
	}
	if b.total += int64(len(p)); len(p) > 0 {
		b.latest = p[len(p)-1]
	}
}

// addLine records the first line of p, or a part of it, and returns the bytes after it. before is the number of bytes
// before p in the same addBytes. Folded lines, empty lines before the request and line ends without a carriage return are
// ambiguous.
func (b *boundary) addLine(p []byte, before int64) []byte {
	if b.line == 0 && (p[0] == ' ' || p[0] == '\t') {
		b.ambiguous = true
		return nil
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		b.line += int64(len(p))
		b.last = p[len(p)-1]
		return nil
	}
	hasCR := b.last == '\r' && b.line > 0
	if end > 0 {
		hasCR = p[end-1] == '\r'
	}
	at := before + int64(end) + 1
	switch empty := b.line+int64(end) == 1; {
	case !hasCR, empty && b.total+at == 2:
		b.ambiguous = true
	case empty:
		b.head = b.total + at
	}
	b.line = 0
	return p[end+1:]
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

// boundaryAfter returns the boundary for a request whose first byte net/http has already read. It reads one byte while a
// handler runs, to detect that the client disconnects.
func boundaryAfter(first byte) (b boundary) {
	b.addBytes([]byte{first})
	return b
}
