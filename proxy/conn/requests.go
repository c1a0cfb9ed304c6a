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

// LargestBody is the maximum length of a request body, in bytes, whatever the settings are.
const LargestBody = 14 << 20

// maxBodies is the maximum memory of all request bodies, in bytes. NewMemory reduces it to half of the account, but not
// below the largest body.
const maxBodies = 32 << 20

// Memory reserves memory for request bodies, streams and unread responses.
type Memory struct {
	account   *account.Account // nil means no limit
	requests  *account.Part
	reads     *account.Part // long requests that nodes are read for, in addition to the requests of waiting clients
	admission *limits.Admission
}

// NewMemory returns the memory within an account; nil means no limit. While more than half of the memory for request
// bodies is in use, a client can use at most half of it, or one body of largest bytes.
func NewMemory(a *account.Account, largest int64, admission *limits.Admission) *Memory {
	most := int64(maxBodies)
	if a != nil {
		most = max(min(most, a.Limit()/2), largest)
	}
	part := func() *account.Part { return a.Part(account.Requests, most, max(most/2, largest)) }
	return &Memory{a, part(), part(), admission}
}

// A RequestBody holds memory for the body of a request. It is for one goroutine, except Release.
type RequestBody struct{ hold *account.Hold }

// HoldBody returns a RequestBody that reserves memory for a client. Release must be called when the body is no longer
// used.
func (m *Memory) HoldBody(c *limits.Client) *RequestBody {
	return &RequestBody{m.requests.Open(c.Name(), m.admission.IsMany(c))}
}

// Take reserves n more bytes. The error is a *failure.Failure: 429 if the client has used its share, 503 if memory is
// short.
func (b *RequestBody) Take(n int) error { return bodyRefusal(b.hold.Take(n)) }

// ReadAll reads a body to its end. The caller must limit from to largest bytes. The error is from's, or Take's.
func (b *RequestBody) ReadAll(from io.Reader, largest int64) ([]byte, error) {
	body, err := b.hold.ReadAll(from, largest)
	return body, bodyRefusal(err)
}

// ReadRequest reads the body of r. It does not start to read if Content-Length exceeds largest, so a client that waits
// for "100 Continue" is refused before it sends the body.
func (b *RequestBody) ReadRequest(w http.ResponseWriter, r *http.Request, largest int64) ([]byte, error) {
	if r.ContentLength > largest {
		return nil, &http.MaxBytesError{Limit: largest}
	}
	return b.ReadAll(http.MaxBytesReader(w, r.Body, largest), largest)
}

// Release releases the memory. It may be called again, and concurrently.
func (b *RequestBody) Release() { b.hold.Close() }

// HoldRead reserves memory for the request of a read, which may last longer than its client waits. It is separate from the
// memory of HoldBody, which the waiting client still holds. A client has a share, unless it stands for many clients. The
// error is the same as Take's.
func (m *Memory) HoldRead(client string, many bool, bytes int) (release func(), err error) {
	hold := m.reads.Open(client, many)
	return hold.Close, bodyRefusal(hold.Take(bytes))
}

// HoldStream reserves bytes for a long-lived stream, until release is called. The error is a *failure.Failure.
func (m *Memory) HoldStream(bytes int64) (release func(), err error) {
	if bytes <= 0 {
		return func() {}, nil
	}
	if !m.account.Reserve(account.Streams, bytes) {
		return nil, ErrNoStream
	}
	return func() { m.account.Release(account.Streams, bytes) }, nil
}

func bodyRefusal(err error) error {
	switch {
	case errors.Is(err, account.ErrShare):
		return &failure.Failure{Expected: true, Status: http.StatusTooManyRequests, RetryAfter: time.Second, Public: "too many request bodies from this client are being processed", Err: err}
	case errors.Is(err, account.ErrFull):
		return &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many request bodies are being processed", Err: err}
	}
	return err
}
