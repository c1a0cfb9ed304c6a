package query

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Tags are what an event is judged by: the values of each tag.
type Tags map[string][]string

// Matches says whether each condition is met by a value of its tag.
func (q *Query) Matches(tags Tags) bool {
	for i := range q.conditions {
		if !q.conditions[i].matches(tags) {
			return false
		}
	}
	return true
}

// matches says whether a value of the tag meets the condition. An event's type is a tag of value "".
func (c *condition) matches(tags Tags) bool {
	for _, value := range tags[c.tag] {
		if c.meets(value) {
			return true
		}
	}
	if !c.meets("") {
		return false
	}
	for name := range tags {
		if dot := strings.LastIndexByte(name, '.'); dot == len(c.tag) && name[:dot] == c.tag {
			return true
		}
	}
	return false
}

// compile finds how values are compared with that of the condition.
func (c condition) compile() condition {
	switch {
	case c.operator == exists:
		c.meets = func(string) bool { return true }
	case c.operator == contains:
		c.meets = func(value string) bool { return strings.Contains(value, c.value) }
	case c.kind == text:
		c.meets = func(value string) bool { return value == c.value }
	case c.kind == number:
		wanted := strings.TrimSuffix(c.value, ".")
		small, isLarge := strconv.ParseInt(wanted, 10, 64)
		exact := parseNumber(wanted)
		c.meets = func(value string) bool {
			digits := leadingNumber(value)
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && isLarge == nil { // as most are: big.Float takes 20 times as long
				return c.operator.holds(cmp.Compare(n, small))
			}
			n := parseNumber(digits)
			return n != nil && c.operator.holds(n.Cmp(exact))
		}
	default:
		layout := time.RFC3339
		if c.kind == datestamp {
			layout = time.DateOnly
		}
		wanted, _ := time.Parse(layout, c.value) // it was checked when it was read
		c.meets = func(value string) bool {
			at, err := time.Parse(layout, value)
			return err == nil && c.operator.holds(at.Compare(wanted))
		}
	}
	return c
}

// holds says whether a comparison with so an outcome is true.
func (t token) holds(outcome int) bool {
	switch t {
	case less:
		return outcome < 0
	case lessEqual:
		return outcome <= 0
	case greater:
		return outcome > 0
	case greaterEqual:
		return outcome >= 0
	default:
		return outcome == 0
	}
}

// leadingNumber is what a value such as 5stake or 6.5stake begins with.
func leadingNumber(value string) string {
	s := scanner{input: value}
	s.consume(isDigit)
	if whole := s.end; whole == 0 || !s.skip('.') || s.consume(isDigit) == "" {
		return value[:whole]
	}
	return value[:s.end]
}

// precision of numbers that are not whole, in bits.
const precision = 125

// parseNumber reads digits, perhaps with a point. It is nil for an empty text.
func parseNumber(digits string) *big.Float {
	if whole, ok := new(big.Int).SetString(digits, 10); ok {
		return new(big.Float).SetInt(whole)
	}
	n, _, err := big.ParseFloat(digits, 10, precision, big.ToNearestEven)
	if err != nil {
		return nil
	}
	return n
}
