package query

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Tags maps an event's tags to their values.
type Tags map[string][]string

// Size returns the cost of comparing all tags and values once, as a condition may do, in bytes.
func (t Tags) Size() (size int) {
	const each = 16 // overhead of a comparison
	for name, values := range t {
		size += each + len(name)
		for _, value := range values {
			size += each + len(value)
		}
	}
	return size
}

// Conditions returns the number of conditions.
func (q *Query) Conditions() int { return len(q.conditions) }

// Matches reports whether every condition matches a value of its tag.
func (q *Query) Matches(tags Tags) bool {
	for i := range q.conditions {
		if !q.conditions[i].matchesAny(tags) {
			return false
		}
	}
	return true
}

// matchesAny reports whether the condition matches a value of its tag. An event's type is a tag with value "".
func (c *condition) matchesAny(tags Tags) bool {
	for _, value := range tags[c.tag] {
		if c.matches(value) {
			return true
		}
	}
	if !c.matches("") {
		return false
	}
	for name := range tags {
		if dot := strings.LastIndexByte(name, '.'); dot == len(c.tag) && name[:dot] == c.tag {
			return true
		}
	}
	return false
}

// compile sets matches.
func (c condition) compile() condition {
	switch {
	case c.operator == exists:
		c.matches = func(string) bool { return true }
	case c.operator == contains:
		c.matches = func(value string) bool { return strings.Contains(value, c.value) }
	case c.kind == text:
		c.matches = func(value string) bool { return value == c.value }
	case c.kind == number:
		wanted := strings.TrimSuffix(c.value, ".")
		small, isLarge := strconv.ParseInt(wanted, 10, 64)
		exact := parseNumber(wanted)
		c.matches = func(value string) bool {
			digits := leadingNumber(value)
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && isLarge == nil { // the usual case: big.Float takes 20 times as long
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
		wanted, _ := time.Parse(layout, c.value) // checkTime has checked it
		c.matches = func(value string) bool {
			at, err := time.Parse(layout, value)
			return err == nil && c.operator.holds(at.Compare(wanted))
		}
	}
	return c
}

// holds reports whether the operator accepts a result of cmp.Compare.
func (t token) holds(comparison int) bool {
	switch t {
	case less:
		return comparison < 0
	case lessEqual:
		return comparison <= 0
	case greater:
		return comparison > 0
	case greaterEqual:
		return comparison >= 0
	default:
		return comparison == 0
	}
}

// leadingNumber returns the number at the beginning of a value such as 5stake or 6.5stake. It truncates a long one, because a
// condition's number is shorter than MaxLength, and parsing millions of digits takes seconds.
func leadingNumber(value string) string {
	if strings.HasPrefix(value, "00") {
		value = "0" + strings.TrimLeft(value, "0")
	}
	value = value[:min(len(value), 2*MaxLength)]
	end := leadingDigits(value)
	if rest, ok := strings.CutPrefix(value[end:], "."); ok && end > 0 && leadingDigits(rest) > 0 {
		end += len(".") + leadingDigits(rest)
	}
	return value[:end]
}

func leadingDigits(s string) (n int) {
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// precision is the precision of fractional numbers, in bits.
const precision = 125

// parseNumber parses digits with an optional decimal point. It returns nil for an empty text.
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
