package clients

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestZipfDrawsByItsLaw(t *testing.T) {
	const s, ranks, draws = 0.9, 1000, 2_000_000
	z, r := NewZipf(s, ranks), rand.New(rand.NewPCG(1, 2))
	seen := make([]int, ranks)
	for range draws {
		seen[z.Draw(r)]++
	}
	norm := 0.0
	for k := 1; k <= ranks; k++ {
		norm += math.Pow(float64(k), -s)
	}
	for k, n := range seen {
		p := math.Pow(float64(k+1), -s) / norm
		if deviation := math.Sqrt(draws * p * (1 - p)); math.Abs(float64(n)-draws*p) > 5*deviation {
			t.Errorf("rank %d: drawn %d times, want %.0f ± %.0f", k, n, draws*p, deviation)
		}
	}
}
