package state

import (
	"errors"
	"fmt"
	"net/http"
)

// The gRPC codes that the APIs know.
const (
	Unknown          = 2
	InvalidArgument  = 3
	DeadlineExceeded = 4
	NotFound         = 5
	Unimplemented    = 12
	Internal         = 13
	Unavailable      = 14
)

// codes are the names of gRPC codes and their HTTP statuses.
var codes = map[int]struct {
	name   string
	status int
}{
	Unknown: {"Unknown", http.StatusInternalServerError}, InvalidArgument: {"InvalidArgument", http.StatusBadRequest},
	DeadlineExceeded: {"DeadlineExceeded", http.StatusGatewayTimeout}, NotFound: {"NotFound", http.StatusNotFound},
	Unimplemented: {"Unimplemented", http.StatusNotImplemented}, Internal: {"Internal", http.StatusInternalServerError},
}

// A Failure is an answer that is an error.
type Failure struct {
	Code int
	Text string
}

func (f *Failure) Error() string { return f.Text }

// Status is its HTTP status.
func (f *Failure) Status() int { return codes[f.Code].status }

// RPC is the failure as a query service words it.
func (f *Failure) RPC() string {
	return "rpc error: code = " + codes[f.Code].name + " desc = " + f.Text
}

// Fail makes a failure.
func Fail(code int, format string, a ...any) error {
	return &Failure{code, fmt.Sprintf(format, a...)}
}

// Failed is an error as a failure.
func Failed(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{Unknown, err.Error()}
}
