package devnet

import (
	"math/bits"
	"strconv"
)

// unit is one in the smallest fraction of a decimal.
const unit = 1_000_000_000_000_000_000

// A decimal is a number with 18 fractional digits, as the chain reckons.
type decimal struct {
	whole, fraction uint64 // the fraction is below unit
}

// ratio is n*m/d for a power of ten d up to unit. The result must fit.
func ratio(n, m, d uint64) decimal {
	high, low := bits.Mul64(n, m)
	quotient, rest := bits.Div64(high, low, d)
	return decimal{quotient, rest * (unit / d)}
}

func (a decimal) add(b decimal) decimal {
	sum := decimal{a.whole + b.whole, a.fraction + b.fraction}
	if sum.fraction >= unit {
		sum.whole, sum.fraction = sum.whole+1, sum.fraction-unit
	}
	return sum
}

// appendTo appends the number with all its 18 digits.
func (a decimal) appendTo(b []byte) []byte {
	b = append(strconv.AppendUint(b, a.whole, 10), '.')
	from := len(b)
	b = strconv.AppendUint(b, unit+a.fraction, 10) // the leading 1 keeps the zeros
	return append(b[:from], b[from+1:]...)
}

func (a decimal) String() string { return string(a.appendTo(nil)) }

// slashed is what is left of a after losing so many 1/10,000.
func (a decimal) slashed(lost uint64) decimal {
	kept := 10_000 - lost
	whole := ratio(a.whole, kept, 10_000)
	high, low := bits.Mul64(a.fraction, kept)
	fraction, _ := bits.Div64(high, low, 10_000)
	return whole.add(decimal{fraction: fraction})
}
