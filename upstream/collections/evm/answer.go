package evm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// An Answer is that to one call of a batch.
type Answer struct {
	Result gjson.Result
	Err    *Failure // the call was refused
}

// Text is a result that is a string. null, or none, is no answer.
func (a Answer) Text() (string, error) {
	switch {
	case a.Err != nil:
		return "", a.Err
	case a.Result.Type != gjson.String:
		return "", Refusal("its result is no string but %s", a.Result.Type)
	}
	return a.Result.Str, nil
}

// Results are those of the answers, or their error, or that of the first call that was refused.
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

// sortAnswers finds the answer to each call of a batch, whatever their order. With
// an error they are those before the first call that was not answered.
func (c *client) sortAnswers(body string, calls int) ([]Answer, error) {
	if !jsontext.ValidString(body) {
		return nil, c.notJSON(body)
	}
	all := gjson.Parse(body)
	if all.IsObject() {
		return c.single(all, calls)
	}
	answers, seen := make([]Answer, calls), make([]bool, calls)
	twice := false
	var refusal *Failure
	all.ForEach(func(_, a gjson.Result) bool {
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
	case twice:
		return nil, Refusal("it answered a call twice: %s", c.excerpt(body))
	case answered < calls && refusal != nil: // of all of them: geth says once that a batch is too large
		return beforeError(answers[:answered]), refusal
	case answered < calls:
		return answers[:answered], Refusal("it answered %d of %d calls: %s", answered, calls, c.excerpt(body))
	case refusal != nil && refusal.Reason == Limited:
		return beforeError(answers), refusal
	}
	return answers, nil
}

// beforeError are the answers before the first that is an error.
func beforeError(answers []Answer) []Answer {
	if i := slices.IndexFunc(answers, func(a Answer) bool { return a.Err != nil }); i >= 0 {
		return answers[:i]
	}
	return answers
}

// single reads an answer that is an object: to the only call, or the refusal of a whole batch.
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

// readAnswer reads the answer to one call in one pass. The id is -1 if it is none of ours.
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

// Quantity reads a number as JSON-RPC writes it: 0x and hex digits.
func Quantity(s string) (int64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%.30q is not a quantity", s)
	}
	return int64(n), nil
}

// Hex writes a number as JSON-RPC reads it.
func Hex(n int64) string { return "0x" + strconv.FormatInt(n, 16) }
