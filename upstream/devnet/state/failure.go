package state

import (
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
)

// statuses are those of HTTP for the codes that the APIs know.
var statuses = map[codes.Code]int{
	codes.Unknown: http.StatusInternalServerError, codes.Internal: http.StatusInternalServerError, codes.InvalidArgument: http.StatusBadRequest,
	codes.DeadlineExceeded: http.StatusGatewayTimeout, codes.NotFound: http.StatusNotFound, codes.Unimplemented: http.StatusNotImplemented,
}

// A Failure is an answer that is an error.
type Failure struct {
	Code codes.Code
	Text string
}

func (f *Failure) Error() string { return f.Text }

// Status is its HTTP status.
func (f *Failure) Status() int { return statuses[f.Code] }

// RPC is the failure as a query service words it.
func (f *Failure) RPC() string {
	return "rpc error: code = " + f.Code.String() + " desc = " + f.Text
}

// Fail makes a failure.
func Fail(code codes.Code, format string, a ...any) error {
	return &Failure{code, fmt.Sprintf(format, a...)}
}

// Failed is an error as a failure.
func Failed(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{codes.Unknown, err.Error()}
}
