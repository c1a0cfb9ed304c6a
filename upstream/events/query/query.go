package query

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxLength is the maximum length of a subscription's query, in bytes.
const MaxLength = 512

// A Query is a parsed query. It is immutable.
type Query struct {
	conditions []condition
	identity   string
}

// A condition is one of the comparisons joined by AND.
type condition struct {
	tag      string
	operator token
	kind     token // of the value
	value    string
	matches  func(value string) bool
}

// Parse parses a query of any length. The caller must limit it, because long numbers take quadratic time. Like the node it
// ignores an unterminated text at the end.
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

// String returns the normalized query, which identifies it. Spacing is normalized, but not numbers and the
// order of the conditions.
func (q *Query) String() string { return q.identity }

func (s *scanner) condition() (c condition, err error) {
	if c.tag, err = s.expect(tag); err != nil {
		return c, err
	}
	if _, err = s.expect(lessEqual, greaterEqual, less, greater, equal, contains, exists); err != nil {
		return c, err
	}
	switch c.operator = s.token; c.operator {
	case exists:
		return c, nil
	case contains:
		c.value, err = s.expect(text)
	case equal:
		c.value, err = s.expect(number, timestamp, datestamp, text)
	default:
		c.value, err = s.expect(number, timestamp, datestamp)
	}
	c.kind = s.token
	return c, err
}

// expect reads a token of one of the given kinds and returns its text.
func (s *scanner) expect(tokens ...token) (string, error) {
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

// String returns the normalized condition.
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

// Equality returns a tag and a value that every matching event has. Of several conditions that require a value, it uses
// the last one, and one for tm.event only if there is no other. tag is empty if the query requires no value.
func (q *Query) Equality() (tag, value string) {
	for _, c := range q.conditions {
		// Events have the value "" for their type without having such a tag.
		if c.operator == equal && c.kind == text && c.value != "" && (tag == "" || c.tag != "tm.event") {
			tag, value = c.tag, c.value
		}
	}
	return tag, value
}
