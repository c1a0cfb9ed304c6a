// Package upstream holds what the clients of the origins share: the error that
// says an origin gave no answer.
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

// Kind says why there is no answer.
type Kind int

// The kinds, each with the HTTP status a proxy answers it with.
const (
	Unreachable Kind = iota + 1 // refused, reset, no such host: 502
	Timeout                     // no answer in time: 504
	Overloaded                  // not asked, to spare the origin: 503
	BadAnswer                   // truncated, too large or not the origin's format: 502
)

// ErrBehind is in the chain of an [Error] where no origin has as new a state as was asked for.
var ErrBehind = errors.New("no endpoint has the block yet")

// ErrYielded is in that of a request that no client waits for, and for which there is no room now.
var ErrYielded = errors.New("requests that somebody waits for go first")

// String gives the kind in one word, as metrics have it.
func (k Kind) String() string {
	return [...]string{"", "unreachable", "timeout", "overloaded", "bad_answer"}[k]
}

// Status is the HTTP status a proxy answers with.
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

// An Error means that the origin was silent: no answer came that could be
// passed on. A refusal by the origin is an answer and never an Error.
type Error struct {
	Kind       Kind
	Msg        string        // for the client: no address, no key
	Err        error         // for the log; may be nil
	RetryAfter time.Duration // when trying again makes sense; 0 unknown
	Said       *Said         // for clients of the same API; nil for nothing
}

// Said is what a server in front of the upstream answered in its place, in terms of the upstream's API.
type Said struct {
	API  API
	Code int64
	Text string // at most MaxSaid bytes, without credentials
}

// MaxSaid is the largest length of a text that is passed on from a server in front of an upstream, in bytes.
const MaxSaid = 256

// API is an interface of a chain node whose errors have codes of their own.
type API string

// The APIs.
const (
	RPC  API = "RPC"  // with codes of JSON-RPC
	GRPC API = "gRPC" // with codes of gRPC
)

// SaidBy returns what the error of an upstream passes on to clients of an API, nil for nothing.
func SaidBy(err error, api API) *Said {
	if silent, ok := errors.AsType[*Error](err); ok && silent.Said != nil && silent.Said.API == api {
		return silent.Said
	}
	return nil
}

// Error joins the public and the private half.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Msg
	}
	return fmt.Sprintf("%s: %v", e.Msg, e.Err)
}

// Unwrap gives the private half to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of the [Error] in the chain of an error, 0 where there is none.
func KindOf(err error) Kind {
	if silent, ok := errors.AsType[*Error](err); ok {
		return silent.Kind
	}
	return 0
}

// Silence wraps a transport's failure: Timeout when the deadline passed, else
// Unreachable. The name is how the origin is called towards the client.
func Silence(name string, err error) *Error {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Kind: Timeout, Msg: name + " did not answer in time", Err: err}
	}
	return &Error{Kind: Unreachable, Msg: name + " cannot be reached", Err: err}
}

// Bare drops the URL that net/http puts around an error: it may hold a key.
func Bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// RetryAfter reads the header of that name, seconds or a date; 0 if there is none, or it is past.
func RetryAfter(header http.Header) time.Duration {
	said := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(said, 10, 33) // as many as a Duration holds
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(said); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}
