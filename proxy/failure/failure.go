// Package failure has the errors that clients get: a status and a public text in addition to the cause. Of maps all
// errors to statuses.
package failure

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// A Failure is an error with a status and text for the client, and a cause for the log.
type Failure struct {
	Status     int
	Public     string        // text for the client, without internals
	RetryAfter time.Duration // 0 means 1 s for 429 and 503, and none for others
	Err        error         // cause for the log; may be nil
	Expected   bool          // clients can cause it at will, so it is no server error, whatever the status
	NullMsg    bool          // the envelope's msg is null, as in the node's response, instead of empty
}

// Error returns the text for the log.
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Public
	}
	return f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// SetAdvice sets WWW-Authenticate for 401, and Retry-After in whole seconds if RetryAfter is set or the status is
// 429 or 503. gRPC has trailers of its own.
func (f *Failure) SetAdvice(h http.Header) {
	if f.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `ApiKey header="X-Api-Key"`)
	}
	refused := f.Status == http.StatusServiceUnavailable || f.Status == http.StatusTooManyRequests
	if f.RetryAfter <= 0 && !refused {
		return
	}
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(f.RetryAfter.Seconds())))))
}
