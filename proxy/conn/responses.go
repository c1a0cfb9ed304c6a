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
	reserved atomic.Int64 // bytes of all HeldResponses
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
// for up to MaxUncounted bytes. release is nil after an error, which is a *failure.Failure.
func (m *Memory) HoldResponse(r *http.Request, n int) (release func(), err error) {
	if n <= MaxUncounted {
		return func() {}, nil
	}
	h := m.OpenResponse(r)
	if err := h.Take(n); err != nil {
		return nil, err
	}
	return h.Release, nil
}

// A HeldResponse is the memory of a response that only one client gets, and whose parts arrive one by one. A nil HeldResponse
// counts nothing. It is safe for concurrent use.
type HeldResponse struct {
	memory *Memory
	conn   *Conn // nil if unknown

	mu   sync.Mutex
	held int64
	err  error // of the first Take that failed
}

// OpenResponse returns the empty memory of the response to a request.
func (m *Memory) OpenResponse(r *http.Request) *HeldResponse {
	return &HeldResponse{memory: m, conn: Of(r)}
}

// Take reserves n more bytes. After a failure, which is a *failure.Failure, all later calls fail.
func (h *HeldResponse) Take(n int) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil && !h.memory.account.Reserve(account.Unread, int64(n)) {
		h.err = &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many responses have not been read", Err: account.ErrFull}
	}
	if h.err == nil {
		h.add(int64(n))
	}
	return h.err
}

// Err returns the error of the first Take that failed.
func (h *HeldResponse) Err() error { return h.Take(0) }

// Release releases the memory.
func (h *HeldResponse) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memory.account.Release(account.Unread, h.held)
	h.add(-h.held)
}

func (h *HeldResponse) add(n int64) {
	if h.held += n; h.conn != nil {
		h.conn.responses.reserved.Add(n)
	}
}

// HeldBytes returns the bytes that are reserved for responses of the connection.
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
