package devnet

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A query is one request being answered: the state it reads, what it asks for
// and the message as far as it is written.
type query struct {
	state
	http    *http.Request
	request request // its parameters
	out     []byte

	delegator, operator []byte     // the addresses in the path, whether or not they exist
	validator           *validator // the operator's; nil if unknown
	stake               *stake     // the delegator's at the validator; nil if there is none
}

// addresses reads the delegator and the validator that the path names. The
// words for an empty one are those of the staking service, but for
// distribution about one address.
func (q *query) addresses() (err error) {
	empty := "%s address cannot be empty"
	if strings.HasPrefix(q.http.Pattern, "/distribution/") && strings.Count(q.http.Pattern, "{") == 1 {
		empty = "empty %s address"
	}
	read := func(name string) (raw []byte, err error) {
		text := q.http.PathValue(name)
		if text == "" {
			return nil, nil // not in this path
		}
		if raw, err = parseHex(text); err == nil && len(raw) == 0 {
			err = fmt.Errorf("rpc error: code = InvalidArgument desc = "+empty, name)
		}
		return raw, err
	}
	if q.delegator, err = read("delegator"); err != nil {
		return err
	}
	if q.operator, err = read("validator"); err != nil {
		return err
	}
	if q.validator = q.byOperator[string(q.operator)]; q.validator != nil {
		q.stake = q.validator.find(q.delegator)
	}
	return nil
}

func (q *query) textf(format string, a ...any) { q.out = fmt.Appendf(q.out, format, a...) }

// text appends its parts without allocating, which counts in long lists.
func (q *query) text(parts ...any) {
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			q.out = append(q.out, p...)
		case uint64:
			q.out = strconv.AppendUint(q.out, p, 10)
		case decimal:
			q.out = p.appendTo(q.out)
		case address:
			q.out = p.appendTo(q.out)
		}
	}
}

// object appends an object with one member.
func (q *query) object(name string, value func()) error {
	q.textf(`{%q:`, name)
	value()
	q.text("}")
	return nil
}

// list appends a JSON list; none is what an empty one is.
func list[T any](q *query, all []T, none string, item func(T)) {
	if len(all) == 0 {
		q.text(none)
		return
	}
	between := "["
	for _, one := range all {
		q.text(between)
		item(one)
		between = ","
	}
	q.text("]")
}
