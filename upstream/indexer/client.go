package indexer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
)

// client speaks JSON-RPC over HTTP with one endpoint, always in batches, so that
// what is asked together is answered by the same server.
type client struct {
	url     string
	http    *http.Client
	timeout time.Duration
	maxBody int64
}

// A call is one of a batch.
type call struct {
	method string
	params []any
}

// reason says what to do about an endpoint that did not give what was asked for.
type reason int

const (
	refused   reason = iota // it answered with an error, or not what was asked: perhaps too much was
	silent                  // no answer came
	limited                 // it wants to be asked less often
	forbidden               // it wants other credentials
	lagging                 // it does not have the block yet
	reasons
)

// A trouble is an endpoint's failure.
type trouble struct {
	reason reason
	after  time.Duration // of limited: when to ask again, 0 unknown
	code   int64         // of refused: JSON-RPC's, 0 if it was not that
	err    error
}

func (t *trouble) Error() string { return t.err.Error() }
func (t *trouble) Unwrap() error { return t.err }

func refusal(format string, args ...any) *trouble {
	return &trouble{reason: refused, err: fmt.Errorf(format, args...)}
}

// batch makes all the calls at once and returns their results in that order.
// The error is a *trouble, or that of ctx; for a call that was refused it is
// that call's, unless each is to be looked at alone.
func (c *client) batch(ctx context.Context, calls ...call) ([]gjson.Result, error) {
	answers, err := c.each(ctx, calls...)
	if err != nil {
		return nil, err
	}
	results := make([]gjson.Result, len(calls))
	for i, a := range answers {
		if a.err != nil {
			return nil, a.err
		}
		results[i] = a.result
	}
	return results, nil
}

// An answer is that to one call of a batch.
type answer struct {
	result gjson.Result
	err    *trouble // the call was refused
}

// text is a result that is a string. null, or none, is no answer: it does not
// say that there is nothing.
func (a answer) text() (string, error) {
	switch {
	case a.err != nil:
		return "", a.err
	case a.result.Type != gjson.String:
		return "", refusal("its result is no string: %s", excerpt(a.result.Raw))
	}
	return a.result.Str, nil
}

// each makes the calls and returns the answer to each. The error is a *trouble
// of the batch as a whole, or that of ctx.
func (c *client) each(ctx context.Context, calls ...call) ([]answer, error) {
	body, err := c.post(ctx, calls)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return sortAnswers(body, len(calls))
}

// post exchanges bodies.
func (c *client) post(ctx context.Context, calls []call) (answer string, err error) {
	ctx, span := upstream.StartSpan(ctx, "evm.request")
	defer func() { upstream.EndSpan(span, err) }()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body, err := json.Marshal(requests(calls))
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return "", hideURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	upstream.PassTrace(ctx, req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return "", &trouble{reason: silent, err: hideURL(err)}
	}
	defer resp.Body.Close()
	answer, err = readText(resp, c.maxBody+1)
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", statusTrouble(resp, answer)
	case err != nil:
		return "", &trouble{reason: silent, err: err}
	case int64(len(answer)) > c.maxBody:
		return "", refusal("its answer is larger than %d bytes", c.maxBody)
	}
	return answer, nil
}

// readText reads a body, of which no more than most bytes. It is a string from
// the beginning, as gjson wants it: many megabytes are not copied for that.
func readText(resp *http.Response, most int64) (string, error) {
	var text strings.Builder
	if resp.ContentLength > 0 {
		text.Grow(int(min(resp.ContentLength, most)))
	}
	_, err := io.Copy(&text, io.LimitReader(resp.Body, most))
	return text.String(), err
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

func requests(calls []call) []request {
	all := make([]request, len(calls))
	for i, c := range calls {
		all[i] = request{"2.0", i, c.method, append([]any{}, c.params...)}
	}
	return all
}

// hideURL leaves the URL out of an error: it may hold a key.
func hideURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// statusTrouble classifies an HTTP status other than 200.
func statusTrouble(resp *http.Response, body string) *trouble {
	t := refusal("it answered %s: %s", resp.Status, excerpt(body))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		t.reason = forbidden
	case http.StatusTooManyRequests:
		t.reason, t.after = limited, retryAfter(resp.Header.Get("Retry-After"))
	}
	return t
}

// retryAfter reads the header: seconds, or a date. 0 is none.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(max(0, seconds)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// sortAnswers finds the answer to each call of a batch, whatever their order.
func sortAnswers(body string, calls int) ([]answer, error) {
	if !gjson.Valid(body) {
		return nil, refusal("its answer is not JSON: %s", excerpt(body))
	}
	all := gjson.Parse(body)
	if all.IsObject() { // the batch as a whole was refused
		if t := callTrouble(all); t != nil {
			return nil, t
		}
	}
	answers, seen := make([]answer, calls), make([]bool, calls)
	answered, twice := 0, false
	all.ForEach(func(_, a gjson.Result) bool {
		if id, read := readAnswer(a); id >= 0 && id < int64(calls) {
			twice = twice || seen[id]
			answers[id], seen[id] = read, true
			answered++
		}
		return true
	})
	if twice {
		return nil, refusal("it answered a call twice: %s", excerpt(body))
	}
	if answered != calls {
		return nil, refusal("it answered %d of %d calls: %s", answered, calls, excerpt(body))
	}
	return answers, nil
}

// readAnswer reads the answer to one call, in one pass: results are large. The
// id is -1 if it is none of ours.
func readAnswer(a gjson.Result) (id int64, read answer) {
	id = -1
	a.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "id":
			if value.Type == gjson.Number {
				id = value.Int()
			}
		case "result":
			read.result = value
		case "error":
			read.err = errorTrouble(value)
		}
		return true
	})
	return id, read
}

// callTrouble reads the error of an answer, nil if there is none.
func callTrouble(a gjson.Result) *trouble { return errorTrouble(a.Get("error")) }

// errorTrouble reads the error of one call, nil if it is none. Providers that
// meter requests say so with 429 in place of JSON-RPC's codes.
func errorTrouble(e gjson.Result) *trouble {
	if !e.Exists() || e.Type == gjson.Null {
		return nil
	}
	t := refusal("it answered error %d: %s", e.Get("code").Int(), excerpt(e.Get("message").String()))
	if t.code = e.Get("code").Int(); t.code == http.StatusTooManyRequests {
		t.reason = limited
	}
	return t
}

// excerpt is the beginning of what an endpoint said, on one line.
func excerpt(said string) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%.200s", said)), " ")
}
