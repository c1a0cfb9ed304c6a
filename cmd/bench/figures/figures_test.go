package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestQuantiles(t *testing.T) {
	xs := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 0.75: 3.25, 1: 4} {
		expect.Equal(t, Quantile(xs, q), want, "quantile %v", q)
	}
	expect.Equal(t, Median([]float64{7}), 7, "median of one")
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: %v", got)
	}
	expect.NoDiff(t, xs, []float64{4, 1, 3, 2}, "values after Quantile")
}

func TestTablesAreThoseOfGitHub(t *testing.T) {
	var text strings.Builder
	Report{&text}.Table("speed", []string{"server", "req/s"}, [][]string{{"µ", "1.5k"}, {"nginx", "12k"}})
	want := "speed:\n\n| server | req/s |\n|--------|------:|\n| µ      |  1.5k |\n| nginx  |   12k |\n\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
