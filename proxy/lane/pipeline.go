package lane

import (
	"unsafe"

	"github.com/tipcache/tipcache/proxy/lane/heads"
)

// A pipeline holds requests that arrived together with one that net/http must serve. net/http reads them one at a time,
// so that the lane knows when it has consumed exactly the bytes it was given.
type pipeline struct {
	text    []byte
	current int // bytes left of the request that is being read; 0 if none is
}

func (l *pipeline) empty() bool { return len(l.text) == 0 }

// prepend inserts text. Its first current bytes are the rest of a request.
func (l *pipeline) prepend(text []byte, current int) {
	l.text, l.current = append(append([]byte(nil), text...), l.text...), current
}

// read reads from one request at most.
func (l *pipeline) read(p []byte) int {
	if l.current == 0 {
		var r heads.Request
		n, verdict := r.Parse(unsafe.String(&l.text[0], len(l.text))) //nolint:gosec // not written while r is in use
		if l.current = n; verdict != heads.Complete {
			l.current = len(l.text)
		}
	}
	n := copy(p, l.text[:l.current])
	l.text, l.current = l.text[n:], l.current-n
	return n
}
