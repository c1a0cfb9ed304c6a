package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream"
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

// BadInput is the client's mistake, found before the origin was asked.
func BadInput(format string, args ...any) error {
	return &Failure{Status: http.StatusBadRequest, Public: fmt.Sprintf(format, args...)}
}

// statusClientGone is logged when the client has left before its answer (as nginx
// does).
const statusClientGone = 499

// FailureOf is the one table that turns errors into statuses.
func FailureOf(err error) *Failure {
	var (
		known   *Failure
		refusal *limits.Refusal
		silent  *upstream.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refusal):
		return &Failure{Status: refusal.Status, Public: refusal.Public, RetryAfter: refusal.RetryAfter, Err: refusal, Expected: true}
	case errors.As(err, &silent):
		return &Failure{Status: silent.Kind.Status(), Public: silent.Msg, RetryAfter: silent.RetryAfter, Err: err, Expected: silent.Kind == upstream.Overloaded}
	case errors.Is(err, cache.ErrOverloaded):
		return &Failure{Status: http.StatusServiceUnavailable, Public: "too many requests are waiting", Err: err, Expected: true}
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Status: http.StatusGatewayTimeout, Public: "no answer in time", Err: err}
	case errors.Is(err, context.Canceled):
		return &Failure{Status: statusClientGone, Public: "the client has left", Err: err}
	default:
		return &Failure{Status: http.StatusInternalServerError, Public: "internal error", Err: err}
	}
}

// A Renderer renders a failure in the form of its interface, and sets the headers that go
// with it.
type Renderer func(r *http.Request, h http.Header, f *Failure) (status int, typ string, body []byte)

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

// explain notes what the client is told of an error, and tells it unless an answer
// has gone out already.
func (s *Stack) explain(c *gin.Context, rec *Record, render Renderer) {
	f := FailureOf(rec.Err)
	rec.Public, rec.Expected = f.Public, f.Expected
	if c.Writer.Written() {
		return
	}
	switch {
	case f.Status == statusClientGone:
		rec.Outcome = "abandoned"
	case f.Status < http.StatusInternalServerError:
		rec.Outcome = "refused"
	default:
		rec.Outcome = "failed"
	}
	status, typ, body := render(c.Request, c.Writer.Header(), f)
	Send(c.Writer, c.Request, status, typ, body)
}
