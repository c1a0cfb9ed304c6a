package query

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxLength of a query that is subscribed to, in bytes.
const MaxLength = 512

// A Query is a parsed query. It does not change.
type Query struct {
	conditions []condition
	identity   string
}

// A condition is one of the comparisons that a query joins.
type condition struct {
	tag      string
	operator token
	kind     token // of the value
	value    string
	meets    func(string) bool
}

// Parse reads a query of any length. What follows a query as an unfinished text is
// left out, as the node leaves it out.
func Parse(input string) (*Query, error) {
	s := &scanner{input: input}
	q := &Query{}
	var words []string
	for {
		c, err := s.condition()
		if err != nil {
			return nil, err
		}
		q.conditions = append(q.conditions, c.compile())
		words = append(words, c.String())
		if errors.Is(s.next(), io.EOF) {
			q.identity = strings.Join(words, " AND ")
			return q, nil
		}
		if s.token != and {
			return nil, fmt.Errorf("offset %d: got %v, want %d", s.start, s.token, and)
		}
	}
}

// String is the identity of a query: spaces do not count, numbers are as they were
// written, and the order of the conditions matters.
func (q *Query) String() string { return q.identity }

// condition reads one condition.
func (s *scanner) condition() (c condition, err error) {
	if c.tag, err = s.want(tag); err != nil {
		return c, err
	}
	if _, err = s.want(lessEqual, greaterEqual, less, greater, equal, contains, exists); err != nil {
		return c, err
	}
	switch c.operator = s.token; c.operator {
	case exists:
		return c, nil
	case contains:
		c.value, err = s.want(text)
	case equal:
		c.value, err = s.want(number, timestamp, datestamp, text)
	default:
		c.value, err = s.want(number, timestamp, datestamp)
	}
	c.kind = s.token
	return c, err
}

// want reads a token that has to be one of some, and gives its text.
func (s *scanner) want(tokens ...token) (string, error) {
	if err := s.next(); err != nil {
		return "", fmt.Errorf("offset %d: %w", s.start, err)
	}
	if slices.Contains(tokens, s.token) {
		return s.text, nil
	}
	names := fmt.Sprint(tokens[len(tokens)-1])
	for i := len(tokens) - 2; i >= 0; i-- {
		joint := ", "
		if i == len(tokens)-2 {
			joint = " or "
		}
		names = fmt.Sprint(tokens[i]) + joint + names
	}
	return "", fmt.Errorf("offset %d: got %v, wanted %s", s.start, s.token, names)
}

// String is the condition in the one way to write it.
func (c condition) String() string {
	operator, _, _ := strings.Cut(c.operator.String(), " ")
	value := c.value
	switch c.kind {
	case invalid:
		return c.tag + " " + operator
	case text:
		value = "'" + value + "'"
	case timestamp:
		value = "TIME " + value
	case datestamp:
		value = "DATE " + value
	}
	return c.tag + " " + operator + " " + value
}

// IsEquality reports whether the query is one comparison with a text, the one that Equality returns.
func (q *Query) IsEquality() bool {
	_, _, ok := q.Equality()
	return ok && len(q.conditions) == 1
}

// Equality is a tag and a value that every event the query matches has, the last that it names;
// tm.event only where there is no other. It is not ok for none.
func (q *Query) Equality() (tag, value string, ok bool) {
	for _, c := range q.conditions {
		// A tag that is the type of an event has the value "" as well.
		if c.operator == equal && c.kind == text && c.value != "" && (!ok || c.tag != "tm.event") {
			tag, value, ok = c.tag, c.value, true
		}
	}
	return tag, value, ok
}
