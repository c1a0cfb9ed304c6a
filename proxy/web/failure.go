package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream"
)

// A Failure is an error with the response that the client gets.
type Failure = failure.Failure

// BadInput is the client's mistake, found before the origin was asked.
func BadInput(format string, args ...any) error {
	return &Failure{Status: http.StatusBadRequest, Public: fmt.Sprintf(format, args...)}
}

// statusClientGone is logged when the client has left before its response, as nginx does.
const statusClientGone = 499

// FailureOf returns the failure that an error becomes. It is the one table of statuses.
func FailureOf(err error) *Failure {
	var (
		known  *Failure
		silent *upstream.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &silent):
		return &Failure{Status: silent.Kind.Status(), Public: silent.Msg, RetryAfter: silent.RetryAfter, Err: err, Expected: silent.Kind == upstream.Overloaded}
	case errors.Is(err, cache.ErrOverloaded):
		return &Failure{Status: http.StatusServiceUnavailable, Public: "too many requests are waiting", Err: err, Expected: true}
	case errors.Is(err, cache.ErrBehind):
		return &Failure{Status: http.StatusBadGateway, Public: "the answer is older than the one before", Err: err}
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

// Fail records that the request is not answered because of err, and returns the status that the client gets.
func (rec *Record) Fail(err error) (status int) {
	rec.Err = err
	f := rec.failure()
	rec.Outcome = outcomeOf(f)
	return f.Status
}

// failure returns what the client gets for the error, and records it.
func (rec *Record) failure() *Failure {
	f := FailureOf(rec.Err)
	rec.Public, rec.Expected = f.Public, f.Expected
	return f
}

// sendFailure sends the error to the client, unless a response has been sent already.
func (s *Stack) sendFailure(c *gin.Context, rec *Record) {
	f := rec.failure()
	if c.Writer.Written() {
		return
	}
	rec.Outcome = outcomeOf(f)
	status, typ, body := rec.route.Render(c.Request, c.Writer.Header(), f)
	Send(c.Writer, c.Request, status, typ, body)
}

// outcomeOf returns the outcome of a failed request in metrics and the log.
func outcomeOf(f *Failure) string {
	switch {
	case f.Status == statusClientGone:
		return "abandoned"
	case f.Status < http.StatusInternalServerError:
		return "refused"
	default:
		return "failed"
	}
}

// BodyFailure returns the failure for an error of reading a request body. tooLarge is the text for a body that is too
// large.
func BodyFailure(err error, tooLarge string) error {
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return &Failure{Status: http.StatusRequestEntityTooLarge, Expected: true, Public: tooLarge}
	}
	if refusal := new(Failure); errors.As(err, &refusal) {
		return err
	}
	return BadInput("the body did not arrive whole")
}
