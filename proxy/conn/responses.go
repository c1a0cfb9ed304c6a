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

// responses are the response bodies that are being written to a client. They occupy memory even if the cache has evicted
// them.
type responses struct {
	mu       sync.Mutex
	list     [][]byte
	storage  [1][]byte    // initial storage of list
	reserved atomic.Int64 // bytes that HoldResponse has reserved
}

// MaxUncounted is the maximum length of a response body, in bytes, that BeginBody need not record: it is copied into a
// buffer that each connection may have.
const MaxUncounted = 16 << 10

// BeginBody records that a response body is being written to the client, until EndBody.
func (c *Conn) BeginBody(body []byte) {
	if len(body) == 0 {
		return
	}
	r := &c.responses
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil {
		r.list = r.storage[:0]
	}
	r.list = append(r.list, body)
}

// EndBody records that a response body was written, or that the write failed.
func (c *Conn) EndBody(body []byte) {
	if len(body) == 0 {
		return
	}
	r := &c.responses
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.list, func(b []byte) bool { return &b[0] == &body[0] }); i >= 0 {
		r.list = slices.Delete(r.list, i, i+1)
	}
}

// HoldResponse reserves n bytes for a response that only one client gets, until release is called. It reserves nothing
// for up to MaxUncounted bytes. The error is a *failure.Failure.
func (m *Memory) HoldResponse(r *http.Request, n int) (release func(), err error) {
	if n <= MaxUncounted {
		return func() {}, nil
	}
	if !m.account.Reserve(account.Unread, int64(n)) {
		return nil, &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many responses have not been read", Err: account.ErrFull}
	}
	c := Of(r)
	if c != nil {
		c.responses.reserved.Add(int64(n))
	}
	return func() {
		if c != nil {
			c.responses.reserved.Add(-int64(n))
		}
		m.account.Release(account.Unread, int64(n))
	}, nil
}

// HeldBytes returns the bytes that HoldResponse has reserved for the connection.
func (c *Conn) HeldBytes() int64 { return c.responses.reserved.Load() }

// StreamBytes returns the memory of the connection's streams except the first, in bytes. Streams whose handlers have
// returned count only if the client is stalled.
func (c *Conn) StreamBytes(stalled bool) int64 { return c.streams.bytes(stalled) }

// EachBody calls f for each response body that is being written.
func (c *Conn) EachBody(f func(body []byte)) {
	r := &c.responses
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.list {
		f(body)
	}
}
