package main

import (
	"math"
	"slices"
	"time"
)

// median is NaN of nothing.
func median(xs []float64) float64 { return quantile(xs, 0.5) }

// quantile interpolates between the two nearest values. It is NaN of nothing.
func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(xs))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// mean is NaN of nothing.
func mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// ratios are as[i] / bs[i], of as many as both have.
func ratios(as, bs []float64) []float64 {
	out := make([]float64, min(len(as), len(bs)))
	for i := range out {
		out[i] = as[i] / bs[i]
	}
	return out
}

// milliseconds are fractions too.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rotated is the order of n servers in a round: each begins once in n rounds.
func rotated(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	return order
}
