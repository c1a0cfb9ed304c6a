package proxy

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
	"github.com/tipcache/tipcache/upstream"
)

// A failure is an error with both its audiences: the status and text for the
// client, and the cause for the log.
type failure struct {
	Status     int
	Public     string        // for the client: nothing internal
	RetryAfter time.Duration // 429 and 503 get one in any case
	Err        error         // for the log; may be nil
}

// Error is what the log says.
func (f *failure) Error() string {
	if f.Err == nil {
		return f.Public
	}
	return f.Err.Error()
}

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.Err }

// badInput is the client's mistake, found before anybody else was asked.
func badInput(format string, args ...any) error {
	return &failure{Status: http.StatusBadRequest, Public: fmt.Sprintf(format, args...)}
}

// statusClientGone is logged when nobody is left to be answered (as nginx does).
const statusClientGone = 499

// failureOf is the one table that turns errors into statuses.
func failureOf(err error) *failure {
	var (
		known  *failure
		silent *upstream.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &silent):
		return &failure{Status: silent.Kind.Status(), Public: silent.Msg, RetryAfter: silent.RetryAfter, Err: err}
	case errors.Is(err, cache.ErrOverloaded):
		return &failure{Status: http.StatusServiceUnavailable, Public: "too many requests are waiting", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{Status: http.StatusGatewayTimeout, Public: "no answer in time", Err: err}
	case errors.Is(err, context.Canceled):
		return &failure{Status: statusClientGone, Public: "the client has left", Err: err}
	default:
		return &failure{Status: http.StatusInternalServerError, Public: "internal error", Err: err}
	}
}

// A renderer writes a failure in the form of its interface.
type renderer func(c *gin.Context, f *failure)

// writeFailure writes the envelope of the chain's interface.
func (s *Server) writeFailure(c *gin.Context, f *failure) {
	setAdvice(c.Writer.Header(), f)
	send(c.Writer, c.Request, f.Status, jsonType, errorEnvelope(f.Status, f.Public))
}

// setAdvice tells what would help: a key, or trying again later, in whole
// seconds, at least one, and always with 429 and 503.
func setAdvice(h http.Header, f *failure) {
	if f.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `ApiKey header="X-Api-Key"`)
	}
	refused := f.Status == http.StatusServiceUnavailable || f.Status == http.StatusTooManyRequests
	if f.RetryAfter <= 0 && !refused {
		return
	}
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(f.RetryAfter.Seconds())))))
}
