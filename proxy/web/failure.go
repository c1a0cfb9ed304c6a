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

// A Failure is an error that a client is told of.
type Failure = failure.Failure

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

// failure notes what the client is told of the error.
func (rec *Record) failure() *Failure {
	f := FailureOf(rec.Err)
	rec.Public, rec.Expected = f.Public, f.Expected
	return f
}

// explain tells the client of the error, unless an answer has gone out already.
func (s *Stack) explain(c *gin.Context, rec *Record, render Renderer) {
	f := rec.failure()
	if c.Writer.Written() {
		return
	}
	rec.Outcome = outcomeOf(f)
	status, typ, body := render(c.Request, c.Writer.Header(), f)
	Send(c.Writer, c.Request, status, typ, body)
}

// outcomeOf is what metrics call a request that is not answered.
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

// BodyFailure says why the body of a request did not come, which may be that it is too large.
func BodyFailure(err error, tooLarge string) error {
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return &Failure{Status: http.StatusRequestEntityTooLarge, Expected: true, Public: tooLarge}
	}
	if refusal := new(Failure); errors.As(err, &refusal) {
		return err
	}
	return BadInput("the body did not arrive whole")
}
