package failure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// BadInput returns the failure of an invalid request, which is found before the upstream is read.
func BadInput(format string, args ...any) error {
	return &Failure{Status: http.StatusBadRequest, Public: fmt.Sprintf(format, args...)}
}

// StatusClientGone is the status that is logged, as by nginx, when the client has disconnected before its response.
const StatusClientGone = 499

// Of returns the failure for an error. An [upstream.Error] brings its own text, and the status of its kind.
func Of(err error) *Failure {
	var (
		known  *Failure
		silent *upstream.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &silent):
		return &Failure{Status: silent.Kind.Status(), Public: silent.Msg, RetryAfter: silent.RetryAfter, Err: err, Expected: silent.Provoked || silent.Kind == upstream.Overloaded}
	case errors.Is(err, cache.ErrOverloaded):
		return &Failure{Status: http.StatusServiceUnavailable, Public: "too many requests are waiting", Err: err, Expected: true}
	case errors.Is(err, account.ErrShare):
		return &Failure{Status: http.StatusTooManyRequests, Public: "too many requests of this client are waiting", Err: err, Expected: true}
	case errors.Is(err, upstream.ErrBehind):
		return &Failure{Status: http.StatusBadGateway, Public: "the answer is older than the one before", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Status: http.StatusGatewayTimeout, Public: "no answer in time", Err: err}
	case errors.Is(err, context.Canceled):
		return &Failure{Status: StatusClientGone, Public: "the client has left", Err: err}
	default:
		return &Failure{Status: http.StatusInternalServerError, Public: "internal error", Err: err}
	}
}

// OfUnknown returns the failure for an error of a path or method that only the nodes know. Clients can cause it at will, so
// it is expected, and a used-up share is a 429 instead of a 503.
func OfUnknown(err error) *Failure {
	f := *Of(err)
	if f.Expected = true; f.Status == http.StatusServiceUnavailable {
		f.Status, f.Public = http.StatusTooManyRequests, "too many requests for what this server does not know"
	}
	return &f
}

// OfBody returns the failure for an error of reading a request body.
func OfBody(err error) error {
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return &Failure{Status: http.StatusRequestEntityTooLarge, Expected: true, Public: fmt.Sprintf("the body is larger than %d bytes", large.Limit)}
	}
	if refusal := new(Failure); errors.As(err, &refusal) {
		return err
	}
	return BadInput("the request body is incomplete")
}
