package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestQuantiles(t *testing.T) {
	xs := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 0.75: 3.25, 1: 4} {
		expect.Equal(t, Quantile(xs, q), want, "quantile %v", q)
	}
	expect.Equal(t, Median([]float64{7}), 7, "median of one")
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median of no values = %v, want NaN", got)
	}
	expect.NoDiff(t, xs, []float64{4, 1, 3, 2}, "values after Quantile")
}

func TestTableHasTheFormOfGitHub(t *testing.T) {
	var text strings.Builder
	Report{&text}.Table("speed", []string{"server", "req/s"}, [][]string{{"µ", "1.5k"}, {"nginx", "12k"}})
	want := "speed:\n\n| server | req/s |\n| ---    | ---:  |\n| µ      | 1.5k  |\n| nginx  | 12k   |\n\n"
	expect.NoDiff(t, text.String(), want, "table")
}
