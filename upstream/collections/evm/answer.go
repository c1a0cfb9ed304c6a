package evm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// An Answer is the response to one call of a batch.
type Answer struct {
	Result gjson.Result
	Err    *Failure // non-nil if the call was refused
}

// Text returns the result if it is a string, and otherwise an error.
func (a Answer) Text() (string, error) {
	switch {
	case a.Err != nil:
		return "", a.Err
	case a.Result.Type != gjson.String:
		return "", Refusal("its result is %s, not a string", a.Result.Type)
	}
	return a.Result.Str, nil
}

// Results returns the results of answers. It returns err if it is not nil, or the error of the first refused call.
func Results(answers []Answer, err error) ([]gjson.Result, error) {
	if err != nil {
		return nil, err
	}
	results := make([]gjson.Result, len(answers))
	for i, a := range answers {
		if a.Err != nil {
			return nil, a.Err
		}
		results[i] = a.Result
	}
	return results, nil
}

// sortAnswers returns the answers to a batch in the order of its calls. With an error it returns the answers before the first
// unanswered call.
func (c *client) sortAnswers(text []byte, calls int) ([]Answer, error) {
	body := unsafe.String(unsafe.SliceData(text), len(text)) // gjson needs a string; this avoids copying many megabytes
	if !jsontext.Valid(text) {
		return nil, c.notJSON(body)
	}
	all := gjson.Parse(body)
	if all.IsObject() {
		return c.single(all, calls)
	}
	answers, seen := make([]Answer, calls), make([]bool, calls)
	n, twice := 0, false
	var refusal *Failure
	all.ForEach(func(_, a gjson.Result) bool {
		if n++; n > calls { // decoding millions of errors would take seconds
			return false
		}
		id, read := c.readAnswer(a)
		if id >= 0 && id < int64(calls) {
			twice = twice || seen[id]
			answers[id], seen[id] = read, true
		}
		refusal = cmp.Or(refusal, read.Err)
		return true
	})
	answered := slices.Index(append(seen, false), false)
	switch {
	case n > calls:
		return nil, Refusal("it sent more than %d answers: %s", calls, c.excerpt(body))
	case twice: // either may be wrong
		return nil, Refusal("it answered a call twice: %s", c.excerpt(body))
	case answered < calls && refusal != nil: // of the whole batch: geth returns one error if it is too large
		return beforeError(answers[:answered]), refusal
	case answered < calls:
		return answers[:answered], Refusal("it answered %d of %d calls: %s", answered, calls, c.excerpt(body))
	case refusal != nil && refusal.Reason == Limited:
		return beforeError(answers), refusal
	}
	return answers, nil
}

// beforeError returns the answers before the first error.
func beforeError(answers []Answer) []Answer {
	if i := slices.IndexFunc(answers, func(a Answer) bool { return a.Err != nil }); i >= 0 {
		return answers[:i]
	}
	return answers
}

// single decodes a response that is an object: either the answer to a single call or the refusal of a batch.
func (c *client) single(object gjson.Result, calls int) ([]Answer, error) {
	id, read := c.readAnswer(object)
	switch {
	case calls == 1 && id == 0:
		return []Answer{read}, nil
	case read.Err != nil:
		return nil, read.Err
	}
	return nil, Refusal("it answered none of %d calls: %s", calls, c.excerpt(object.Raw))
}

// readAnswer decodes the answer to one call in one pass. It returns -1 for an unknown id.
func (c *client) readAnswer(a gjson.Result) (id int64, read Answer) {
	id = -1
	a.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "id":
			if value.Type == gjson.Number {
				id = value.Int()
			}
		case "result":
			read.Result = value
		case "error":
			read.Err = c.callFailure(value)
		}
		return true
	})
	return id, read
}

// Quantity parses a number in JSON-RPC's form: 0x and hex digits.
func Quantity(s string) (int64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%.30q is not a quantity", s)
	}
	return int64(n), nil
}

// Hex formats a number in JSON-RPC's form.
func Hex(n int64) string { return "0x" + strconv.FormatInt(n, 16) }
