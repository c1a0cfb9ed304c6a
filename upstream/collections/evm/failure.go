package evm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// Reason classifies a failure of an endpoint.
type Reason int

// The reasons.
const (
	Refused      Reason = iota // an error or an invalid answer, perhaps because the request is too large
	Silent                     // no response
	Limited                    // rate limit exceeded
	Forbidden                  // credentials rejected
	Lagging                    // it does not have the block yet
	OtherChain                 // it serves another chain
	Inconsistent               // its answers contradict each other or known data
	reasons
)

// String returns the name of the reason in logs and metrics.
func (r Reason) String() string {
	return [...]string{"refused", "silent", "limited", "forbidden", "lagging", "other_chain", "inconsistent"}[r]
}

// A Failure is a failure of an endpoint. It may contain a text of the endpoint, but no part of its URL.
type Failure struct {
	Reason Reason
	After  time.Duration // Limited: when to retry; 0 if unknown
	Code   int64         // Refused: JSON-RPC error code; 0 if none

	permanent bool   // Refused: retrying does not help
	doubted   []Call // Inconsistent: calls whose answers are in doubt; empty means all
	err       error
}

// Error returns the text of the failure.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.err }

// responds reports whether the endpoint has responded to calls. This process may lack the memory for a response.
func (f *Failure) responds() bool {
	return f.Reason == Lagging || f.Reason == Inconsistent || errors.Is(f, account.ErrFull)
}

// Refusal returns the failure of an endpoint with an unusable answer.
func Refusal(format string, args ...any) *Failure {
	return &Failure{Reason: Refused, err: fmt.Errorf(format, args...)}
}

// Lag returns the failure of an endpoint that has not reached the wanted block.
func Lag(format string, args ...any) *Failure {
	return &Failure{Reason: Lagging, err: fmt.Errorf(format, args...)}
}

// Contradiction returns the failure of an endpoint whose answers contradict each other or known data.
func Contradiction(format string, args ...any) *Failure {
	return &Failure{Reason: Inconsistent, err: fmt.Errorf(format, args...)}
}

// Doubting sets the calls whose answers are in doubt. A Session keeps all other answers.
func (f *Failure) Doubting(calls ...Call) *Failure {
	f.doubted = calls
	return f
}

// Doubted returns a key of the contradiction, derived from the first call in doubt.
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

// notJSON returns the failure for a truncated response or a page of another server.
func (c *client) notJSON(body string) *Failure {
	f := Refusal("its answer is not JSON: %s", c.excerpt(body))
	f.permanent = !strings.HasPrefix(body, "[") && !strings.HasPrefix(body, "{")
	return f
}

// JSON-RPC codes of requests that will never succeed.
const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
)

// callFailure decodes the error of one call, or returns nil if there is none. Providers use the code 429 for rate limits.
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

// codeReverted is the JSON-RPC error code for a reverted call.
const codeReverted = 3

// Reverted reports whether the contract failed and not the endpoint. Older clients only say so in the text.
func (f *Failure) Reverted() bool {
	if f.Reason != Refused {
		return false
	}
	message := strings.ToLower(f.Error())
	for _, words := range []string{"revert", "invalid opcode", "invalid jump", "stack underflow", "out of gas", "vm execution"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return f.Code == codeReverted
}

// excerpt returns the beginning of a text from the endpoint on one line. It redacts the text before truncating it, because it
// would not find half a key.
func (c *client) excerpt(text string) string {
	line := strings.Join(strings.Fields(text[:min(len(text), 64<<10)]), " ")
	return fmt.Sprintf("%.200s", c.secret.Replace(line))
}
