package lane

import (
	"bytes"
	"net/http"
)

// A boundary finds out whether net/http has consumed what it was given, to the
// last byte and as one request. It is not taken for granted from the state that
// net/http tells: a byte of the next request may be in one of its buffers then.
//
// The goroutine that reads follows the bytes given, and the goroutine that serves
// follows the handler's calls. These may be two goroutines at the same time, so each
// has fields of its own.
type boundary struct {
	// Of the bytes given.
	total  int64 // how many
	head   int64 // how many of them the head is; 0 before its end
	line   int64 // how many the line that is being read has so far
	last   byte  // of that line
	latest byte  // of all
	odd    bool  // the head is such that parsers do not agree where it ends

	// Of the handler's calls.
	calls  int
	plain  bool // the body has the length announced, and was not to be waited for
	length int64
}

// give follows bytes that net/http gets.
func (b *boundary) give(p []byte) {
	for rest := p; b.head == 0 && !b.odd && len(rest) > 0; {
		rest = b.giveLine(rest, int64(len(p)-len(rest)))
	}
	if b.total += int64(len(p)); len(p) > 0 {
		b.latest = p[len(p)-1]
	}
}

// giveLine follows a line of the head, or its beginning, and returns what comes
// after it. Folded lines, empty lines before the request and ends of line without
// a carriage return are odd.
func (b *boundary) giveLine(p []byte, before int64) []byte {
	if b.line == 0 && (p[0] == ' ' || p[0] == '\t') {
		b.odd = true
		return nil
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		b.line += int64(len(p))
		b.last = p[len(p)-1]
		return nil
	}
	returned := b.last == '\r' && b.line > 0
	if end > 0 {
		returned = p[end-1] == '\r'
	}
	at := before + int64(end) + 1
	switch empty := b.line+int64(end) == 1; {
	case !returned, empty && b.total+at == 2:
		b.odd = true
	case empty:
		b.head = b.total + at
	}
	b.line = 0
	return p[end+1:]
}

// call follows a request that net/http has parsed.
func (b *boundary) call(r *http.Request) {
	b.calls++
	b.length = r.ContentLength
	b.plain = r.ContentLength >= 0 && len(r.TransferEncoding) == 0 && r.Header["Expect"] == nil
}

// ahead counts the bytes that net/http has of the next request when it begins to
// wait for that; ok is false if this cannot be told.
func (b *boundary) ahead() (n int64, ok bool) {
	return b.total - b.head - b.length, b.head > 0 && !b.odd && b.calls == 1 && b.plain
}

// from is the boundary behind the next request, of which net/http has the first
// byte: it reads one while a handler runs, to see whether the client leaves.
func from(first byte) (b boundary) {
	b.give([]byte{first})
	return b
}
