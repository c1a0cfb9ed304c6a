package conn

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/account"
)

// bodies are what is being written to a client: they are kept until it has
// taken them, though the cache may have dropped them long ago.
type bodies struct {
	mu   sync.Mutex
	list [][]byte
	room [1][]byte    // the first home of list
	made atomic.Int64 // bytes that HoldResponse has reserved
}

// Uncounted is the longest body, in bytes, that does not count among the bodies that are being
// written to a connection of HTTP/1: it is copied, into a buffer that every connection may have.
const Uncounted = 16 << 10

// BeginBody notes that a body is about to be written to the client. EndBody must be called
// once that is over.
func (c *Conn) BeginBody(body []byte) {
	if len(body) == 0 {
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
	if len(body) == 0 {
		return
	}
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.list, func(b []byte) bool { return &b[0] == &body[0] }); i >= 0 {
		o.list = slices.Delete(o.list, i, i+1)
	}
}

// HoldResponse reserves n bytes for a response that is made for one client, until release is called. It reserves
// nothing for up to Uncounted bytes. The error is a *failure.Failure.
func (m *Memory) HoldResponse(r *http.Request, n int) (release func(), err error) {
	if n <= Uncounted {
		return func() {}, nil
	}
	if !m.account.Reserve(account.Unread, int64(n)) {
		return nil, &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many responses have not been read", Err: account.ErrFull}
	}
	c := Of(r)
	if c != nil {
		c.outgoing.made.Add(int64(n))
	}
	return func() {
		if c != nil {
			c.outgoing.made.Add(-int64(n))
		}
		m.account.Release(account.Unread, int64(n))
	}, nil
}

// HeldBytes returns the bytes that HoldResponse has reserved for the connection.
func (c *Conn) HeldBytes() int64 { return c.outgoing.made.Load() }

// StreamBytes returns the memory of the connection's streams beyond the first, in bytes. Responses that net/http may
// have written already count only where the client is stalled.
func (c *Conn) StreamBytes(stalled bool) int64 { return c.streams.bytes(stalled) }

// EachBody calls f for each of the bodies that are being written.
func (c *Conn) EachBody(f func(body []byte)) {
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, body := range o.list {
		f(body)
	}
}
