package main

import (
	"math"
	"math/rand/v2"
	"sort"
)

// zipf draws ranks by Zipf's law: the rank k, from 0 on, has a probability in
// proportion to 1/(k+1)^s. math/rand's own wants an s above 1, and what clients
// ask for is flatter than that.
type zipf struct {
	cumulative []float64 // of the ranks up to each; the last is 1
}

func newZipf(s float64, ranks int) *zipf {
	z := &zipf{cumulative: make([]float64, ranks)}
	sum := 0.0
	for k := range z.cumulative {
		sum += math.Pow(float64(k+1), -s)
		z.cumulative[k] = sum
	}
	for k := range z.cumulative {
		z.cumulative[k] /= sum
	}
	return z
}

// draw returns a rank.
func (z *zipf) draw(r *rand.Rand) int {
	u := r.Float64() // below 1, which is the last
	return sort.Search(len(z.cumulative), func(k int) bool { return z.cumulative[k] > u })
}

// share is the probability of the first n ranks together: the hits of whoever
// holds just those, than which no n others have more.
func (z *zipf) share(n int) float64 {
	if n <= 0 {
		return 0
	}
	return z.cumulative[min(n, len(z.cumulative))-1]
}
