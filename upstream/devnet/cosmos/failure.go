package cosmos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// The gRPC codes that the API knows.
const (
	unknown          = 2
	invalidArgument  = 3
	deadlineExceeded = 4
	notFound         = 5
	unimplemented    = 12
	internal         = 13
	unavailable      = 14
)

// codes are the names of gRPC codes, which the texts of a node without gRPC begin with, and
// their HTTP statuses.
var codes = map[int]struct {
	name   string
	status int
}{
	unknown: {"Unknown", http.StatusInternalServerError}, invalidArgument: {"InvalidArgument", http.StatusBadRequest},
	deadlineExceeded: {"DeadlineExceeded", http.StatusGatewayTimeout}, notFound: {"NotFound", http.StatusNotFound},
	unimplemented: {"Unimplemented", http.StatusNotImplemented}, internal: {"Internal", http.StatusInternalServerError},
}

// A failure is an answer that is an error.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

func fail(code int, format string, a ...any) error {
	return &failure{code, fmt.Sprintf(format, a...)}
}

// failed is an error as a failure.
func failed(err error) *failure {
	var f *failure
	if !errors.As(err, &f) {
		return &failure{unknown, err.Error()}
	}
	return f
}

// notImplemented answers what has no route.
var notImplemented = &failure{unimplemented, "Not Implemented"}

// Unavailable is the body by which the gateway says that it cannot ask the application: it is
// away, or took too long.
func Unavailable(status int) []byte {
	if status == http.StatusGatewayTimeout {
		return (&failure{deadlineExceeded, "context deadline exceeded"}).body()
	}
	return (&failure{unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:9090: connect: connection refused"`}).body()
}

// body is a failure as JSON.
func (f *failure) body() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(f.text) // strings always encode
	return fmt.Appendf(nil, `{"code":%d,"message":%s,"details":[]}`, f.code, bytes.TrimSpace(text.Bytes()))
}
