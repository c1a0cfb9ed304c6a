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

// Size returns how much there is to compare, in bytes.
func (t Tags) Size() (size int) {
	const each = 16 // to look at one
	for name, values := range t {
		size += each + len(name)
		for _, value := range values {
			size += each + len(value)
		}
	}
	return size
}

// Cost returns how much is compared at most to match tags of a size, in bytes.
func (q *Query) Cost(size int) int { return len(q.conditions) * size }

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

// leadingNumber returns the number that a value such as 5stake or 6.5stake begins with. A long one
// is cut: no condition has more digits than a query, and to parse very many takes seconds.
func leadingNumber(value string) string {
	end := leadingDigits(value)
	whole, fraction := value[:end], ""
	if rest, ok := strings.CutPrefix(value[end:], "."); ok && whole != "" {
		fraction = rest[:leadingDigits(rest)]
	}
	if fraction != "" {
		end += len(".") + len(fraction)
	}
	if end <= MaxLength {
		return value[:end]
	}
	whole = strings.TrimLeft(whole, "0")
	whole = whole[:min(len(whole), MaxLength+1)] // still larger than a condition's
	if fraction != "" {
		fraction = "." + fraction[:min(len(fraction), MaxLength)]
	}
	return "0" + whole + fraction
}

func leadingDigits(s string) (n int) {
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
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
