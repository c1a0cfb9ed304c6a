package conn

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/account"
)

// LargestBody is the longest body of any request, in bytes.
const LargestBody = 14 << 20

// maxBodies bounds the memory of all request bodies together, in bytes. It is a quarter of cache.memory where
// that is less, and at least LargestBody.
const maxBodies = 32 << 20

// clientShares is the number of shares in the memory for bodies. A client has one.
const clientShares = 20

// Memory reserves memory for what clients send, and for what they have not read.
type Memory struct {
	account   *account.Account // nil means no limit
	requests  *account.Part
	admission *limits.Admission
}

// NewMemory returns the memory within an account, which may be nil.
func NewMemory(a *account.Account, admission *limits.Admission) *Memory {
	most := int64(maxBodies)
	if a != nil {
		most = max(min(most, a.Limit()/2), LargestBody)
	}
	return &Memory{a, a.Part(account.Requests, most, max(most/clientShares, LargestBody)), admission}
}

// A Body holds memory for the body of a request. It is for one goroutine.
type Body struct{ hold *account.Hold }

// HoldBody begins to hold memory for the body of a request of a client. Release must be called once nothing of the
// body is in use.
func (m *Memory) HoldBody(c *limits.Client) *Body {
	return &Body{m.requests.Open(c.Name(), m.admission.IsMany(c))}
}

// Take reserves n more bytes. The error is a *failure.Failure: 429 if the client holds its share, 503 if memory is
// short.
func (b *Body) Take(n int) error { return bodyRefusal(b.hold.Take(n)) }

// ReadAll reads a body to its end, which the caller makes sure comes within largest bytes. The error is the
// reader's, or Take's.
func (b *Body) ReadAll(from io.Reader, largest int64) ([]byte, error) {
	body, err := b.hold.ReadAll(from, largest)
	return body, bodyRefusal(err)
}

// ReadRequest is ReadAll for the body of a request. It does not begin to read one that is announced to be larger: a client
// that waits for "100 Continue" is refused before it sends the body.
func (b *Body) ReadRequest(w http.ResponseWriter, r *http.Request, largest int64) ([]byte, error) {
	if r.ContentLength > largest {
		return nil, &http.MaxBytesError{Limit: largest}
	}
	return b.ReadAll(http.MaxBytesReader(w, r.Body, largest), largest)
}

// Release releases the memory.
func (b *Body) Release() { b.hold.Close() }

// HoldStream reserves bytes for a stream that goes on for long, until release is called. The error is a
// *failure.Failure.
func (m *Memory) HoldStream(bytes int64) (release func(), err error) {
	if bytes <= 0 {
		return func() {}, nil
	}
	if !m.account.Reserve(account.Streams, bytes) {
		return nil, &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many streams are open", Err: account.ErrFull}
	}
	return func() { m.account.Release(account.Streams, bytes) }, nil
}

func bodyRefusal(err error) error {
	switch {
	case errors.Is(err, account.ErrShare):
		return &failure.Failure{Expected: true, Status: http.StatusTooManyRequests, RetryAfter: time.Second, Public: "too many requests of this client bring a body", Err: err}
	case errors.Is(err, account.ErrFull):
		return &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many requests bring a body", Err: err}
	}
	return err
}
