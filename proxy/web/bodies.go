package web

import (
	"slices"
	"sync"
)

// bodies are what is being written to a client: they are kept until it has
// taken them, though the cache may have dropped them long ago.
type bodies struct {
	mu   sync.Mutex
	list [][]byte
	room [1][]byte // the first home of list
}

// Uncounted is the longest body, in bytes, that does not count among the bodies that are being
// written: it is copied, into a buffer that every connection may have.
const Uncounted = 16 << 10

// BeginBody notes that a body is about to be written to the client. EndBody is to be called
// once that is over.
func (c *Conn) BeginBody(body []byte) {
	if len(body) <= Uncounted {
		return
	}
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list == nil {
		o.list = o.room[:0]
	}
	o.list = append(o.list, body)
}

// EndBody notes that a body has been written, or cannot be.
func (c *Conn) EndBody(body []byte) {
	if len(body) <= Uncounted {
		return
	}
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.list, func(b []byte) bool { return &b[0] == &body[0] }); i >= 0 {
		o.list = slices.Delete(o.list, i, i+1)
	}
}

// EachBody calls f for each of the bodies that are being written.
func (c *Conn) EachBody(f func(body []byte)) {
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, body := range o.list {
		f(body)
	}
}
