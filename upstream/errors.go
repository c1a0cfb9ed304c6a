// Package upstream contains code that the clients of all upstreams share: errors, circuit breakers, outages, HTTP clients
// that hide secrets, and tracing.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Kind is the reason why there is no answer.
type Kind int

// The kinds with the HTTP status of a proxy's response.
const (
	Unreachable Kind = iota + 1 // refused, reset, no such host: 502
	Timeout                     // no answer in time: 504
	Overloaded                  // not sent, to limit the upstream's load: 503
	BadAnswer                   // truncated, too large or not in the upstream's format: 502
)

// ErrBehind is wrapped by an [Error] if no upstream has the requested block yet.
var ErrBehind = errors.New("no endpoint has the block yet")

// ErrYielded is wrapped by the [Error] of a read ahead if there is no spare capacity.
var ErrYielded = errors.New("requests of clients go first")

// ErrRemoved is the error of a subscription to an upstream that the configuration no longer has.
var ErrRemoved = errors.New("removed from the configuration")

// String returns the metric label of the kind.
func (k Kind) String() string {
	return [...]string{"", "unreachable", "timeout", "overloaded", "bad_answer"}[k]
}

// Status returns the HTTP status of a proxy's response.
func (k Kind) Status() int {
	switch k {
	case Timeout:
		return http.StatusGatewayTimeout
	case Overloaded:
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadGateway
	}
}

// An Error means that the upstream gave no usable answer. A refusal by the upstream is an answer and not an Error.
type Error struct {
	Kind       Kind
	Msg        string        // for the client, without addresses and keys
	Err        error         // for the log; may be nil
	RetryAfter time.Duration // when to retry; 0 if unknown
	Provoked   bool          // the request is to blame: any client can cause it at will
	Said       *Said         // for clients of the same API; may be nil
	MayHaveRun bool          // a request that changes state was sent, so the upstream may have executed it
}

// Said is an error of a server in front of the upstream, in the form of the upstream's API.
type Said struct {
	API  API
	Code int64
	Text string // at most MaxSaid bytes, without credentials
	Data string // RPC only: more about the error, like Text; "" for none
	Lost bool   // the server may have sent the request on, and then received no response
}

// MaxSaid is the maximum length of Said.Text and Said.Data, in bytes.
const MaxSaid = 256

// API is an interface of a chain node whose errors have codes of their own.
type API string

// The APIs.
const (
	RPC  API = "RPC"  // with codes of JSON-RPC
	GRPC API = "gRPC" // with codes of gRPC
)

// SaidBy returns the Said of an error for clients of an API, or nil.
func SaidBy(err error, api API) *Said {
	if silent, ok := errors.AsType[*Error](err); ok && silent.Said != nil && silent.Said.API == api {
		return silent.Said
	}
	return nil
}

// Error returns Msg and Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Msg
	}
	return fmt.Sprintf("%s: %v", e.Msg, e.Err)
}

// Unwrap returns Err for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// MayHaveRun reports whether an upstream may have executed a request that changes state, although it gave no usable answer.
func MayHaveRun(err error) bool {
	silent, ok := errors.AsType[*Error](err)
	return ok && silent.MayHaveRun
}

// KindOf returns the kind of the [Error] that err wraps, or 0.
func KindOf(err error) Kind {
	if silent, ok := errors.AsType[*Error](err); ok {
		return silent.Kind
	}
	return 0
}

// Silence wraps a transport's error. The kind is Timeout if a deadline passed, and Unreachable otherwise. name names the
// upstream to the client.
func Silence(name string, err error) *Error {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Kind: Timeout, Msg: name + " did not answer in time", Err: err}
	}
	return &Error{Kind: Unreachable, Msg: name + " cannot be reached", Err: err}
}

// Bare unwraps a *url.Error, whose URL may contain a key.
func Bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// RetryAfter parses the header Retry-After, which holds seconds or a date. It returns 0 if it is absent or in the past.
func RetryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 33) // within the range of a Duration
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}
