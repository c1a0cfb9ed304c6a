// Package figures makes medians and quantiles of what was measured and prints
// them in tables.
package figures

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Median is NaN of nothing.
func Median(xs []float64) float64 { return Quantile(xs, 0.5) }

// Quantile interpolates between the two nearest values. It is NaN of nothing.
func Quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(xs))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// Mean is NaN of nothing.
func Mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// Ratios are as[i] / bs[i], of as many as both have.
func Ratios(as, bs []float64) []float64 {
	out := make([]float64, min(len(as), len(bs)))
	for i := range out {
		out[i] = as[i] / bs[i]
	}
	return out
}

// Each is one value of each of many things.
func Each[A any](xs []A, of func(A) float64) []float64 {
	ys := make([]float64, len(xs))
	for i, x := range xs {
		ys[i] = of(x)
	}
	return ys
}

// Milliseconds is a time in milliseconds, with fractions.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Decimal writes about three digits, and a dash for what is no number.
func Decimal(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "-"
	case math.Abs(x) >= 100:
		return fmt.Sprintf("%.0f", x)
	case math.Abs(x) >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// Mebibytes writes bytes as MiB.
func Mebibytes(bytes float64) string { return fmt.Sprintf("%.1f", bytes/(1<<20)) }

// Percent writes the share of n in all, which may be none.
func Percent(n, all int) string { return Decimal(100 * float64(n) / float64(max(1, all))) }
