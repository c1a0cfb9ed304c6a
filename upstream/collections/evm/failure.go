package evm

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
)

// Reason says what to do about an endpoint that did not give what was asked for.
type Reason int

// The reasons.
const (
	Refused      Reason = iota // it answered with an error, or not what was asked: perhaps too much was
	Silent                     // no answer came
	Limited                    // it wants to be asked less often
	Forbidden                  // it wants other credentials
	Lagging                    // it does not have the block yet
	OtherChain                 // it is of another chain
	Inconsistent               // what it says contradicts itself, or what is known
	reasons
)

// String is the reason as logs and metrics name it.
func (r Reason) String() string {
	return [...]string{"refused", "silent", "limited", "forbidden", "lagging", "other_chain", "inconsistent"}[r]
}

// A Failure is that of an endpoint, with what it said, but no part of its URL.
type Failure struct {
	Reason Reason
	After  time.Duration // of Limited: when to ask again, 0 unknown
	Code   int64         // of Refused: JSON-RPC's, 0 if it was not that

	permanent bool   // of Refused: asking the same again does not help
	doubted   []Call // of Inconsistent: whose answers are in doubt; none: all of them
	err       error
}

// Error says what happened.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.err }

// Refusal is the failure of an endpoint that answered, but not what was asked.
func Refusal(format string, args ...any) *Failure {
	return &Failure{Reason: Refused, err: fmt.Errorf(format, args...)}
}

// Lag is the failure of an endpoint that has not got as far as is wanted.
func Lag(format string, args ...any) *Failure {
	return &Failure{Reason: Lagging, err: fmt.Errorf(format, args...)}
}

// Contradiction is the failure of an endpoint whose answers do not fit each other, or what is known.
func Contradiction(format string, args ...any) *Failure {
	return &Failure{Reason: Inconsistent, err: fmt.Errorf(format, args...)}
}

// Doubting names the calls whose answers are in doubt. A Session keeps all others.
func (f *Failure) Doubting(calls ...Call) *Failure {
	f.doubted = calls
	return f
}

// Doubted tells one contradiction from another: it is about the first call in doubt.
func (f *Failure) Doubted() string {
	if len(f.doubted) == 0 {
		return ""
	}
	return f.doubted[0].key()
}

// statusFailure classifies an HTTP status other than 200.
func (c *client) statusFailure(resp *http.Response, body string) *Failure {
	f := Refusal("it answered %s: %s", c.secret.Replace(resp.Status), c.excerpt(body))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.Reason = Forbidden
	case http.StatusTooManyRequests:
		f.Reason, f.After = Limited, upstream.RetryAfter(resp.Header)
	case http.StatusRequestTimeout:
	default:
		f.permanent = resp.StatusCode < 500
	}
	return f
}

// notJSON is the failure of half an answer, or of the page of no execution client.
func (c *client) notJSON(body string) *Failure {
	f := Refusal("its answer is not JSON: %s", c.excerpt(body))
	f.permanent = !strings.HasPrefix(body, "[") && !strings.HasPrefix(body, "{")
	return f
}

// Codes of JSON-RPC for a request that will never be taken.
const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
)

// callFailure reads the error of one call, nil if it is none. Providers that
// meter requests say so with 429 in place of JSON-RPC's codes.
func (c *client) callFailure(e gjson.Result) *Failure {
	if !e.Exists() || e.Type == gjson.Null {
		return nil
	}
	code := e.Get("code").Int()
	f := Refusal("it answered error %d: %s", code, c.excerpt(e.Get("message").String()))
	f.Code, f.permanent = code, code == codeInvalidRequest || code == codeNoMethod
	if code == http.StatusTooManyRequests {
		f.Reason = Limited
	}
	return f
}

// codeReverted is what JSON-RPC's error code is when a contract refuses a call.
const codeReverted = 3

// Reverted reports whether the contract failed, and not the endpoint. Older clients say so in words.
func (f *Failure) Reverted() bool {
	if f.Reason != Refused {
		return false
	}
	said := strings.ToLower(f.Error())
	for _, words := range []string{"revert", "invalid opcode", "invalid jump", "stack underflow", "out of gas", "vm execution"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return f.Code == codeReverted
}

// excerpt is the beginning of what the endpoint said, on one line. It is cut
// after it was redacted: half a key would not be found.
func (c *client) excerpt(said string) string {
	line := strings.Join(strings.Fields(said[:min(len(said), 64<<10)]), " ")
	return fmt.Sprintf("%.200s", c.secret.Replace(line))
}
