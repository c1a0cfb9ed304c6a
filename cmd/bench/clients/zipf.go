package clients

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Zipf draws ranks by Zipf's law: the rank k, from 0 on, has a probability in
// proportion to 1/(k+1)^s. math/rand's own wants an s above 1, and what clients
// ask for is flatter than that.
type Zipf struct {
	cumulative []float64 // of the ranks up to each; the last is 1
}

// NewZipf makes the law of so many ranks.
func NewZipf(s float64, ranks int) *Zipf {
	z := &Zipf{cumulative: make([]float64, ranks)}
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

// Draw returns a rank.
func (z *Zipf) Draw(r *rand.Rand) int {
	u := r.Float64() // below 1, which is the last
	return sort.Search(len(z.cumulative), func(k int) bool { return z.cumulative[k] > u })
}
