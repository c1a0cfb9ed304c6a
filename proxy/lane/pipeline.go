package lane

import (
	"unsafe"

	"github.com/tipcache/tipcache/proxy/lane/heads"
)

// A pipeline has requests that came together with one that net/http has to answer. It gets one
// after the other, so that the lane knows when it has consumed just what it was given.
type pipeline struct {
	text  []byte
	first int // bytes of the request that is being read; 0: none is
}

func (l *pipeline) empty() bool { return len(l.text) == 0 }

// put has text read before what is there, of which so many bytes go on with a request.
func (l *pipeline) put(text []byte, first int) {
	l.text, l.first = append(append([]byte(nil), text...), l.text...), first
}

// read reads of one request at most.
func (l *pipeline) read(p []byte) int {
	if l.first == 0 {
		var r heads.Request
		n, verdict := r.Parse(unsafe.String(&l.text[0], len(l.text))) //nolint:gosec // which is not written
		if l.first = n; verdict != heads.Taken {
			l.first = len(l.text)
		}
	}
	n := copy(p, l.text[:l.first])
	l.text, l.first = l.text[n:], l.first-n
	return n
}
