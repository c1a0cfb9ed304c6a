// Package failure has the errors that clients get: a status and a public text in addition to the cause. Of is the one
// table from errors to statuses.
package failure

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// A Failure is an error with both its audiences: the status and text for the
// client, and the cause for the log.
type Failure struct {
	Status     int
	Public     string        // for the client: nothing internal
	RetryAfter time.Duration // 429 and 503 get one in any case
	Err        error         // for the log; may be nil
	Expected   bool          // clients bring it about as they like: no error of ours, whatever the status
	NullMsg    bool          // the envelope's msg is null, as the node has it, and not empty
}

// Error is what the log says.
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Public
	}
	return f.Err.Error()
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// SetAdvice tells the client what would help: a key, or trying again later, in whole
// seconds, at least one, and always with 429 and 503.
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
