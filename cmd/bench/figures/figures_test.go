package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuantiles(t *testing.T) {
	xs := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 0.75: 3.25, 1: 4} {
		if got := Quantile(xs, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := Median([]float64{7}); got != 7 {
		t.Errorf("median of one: %v", got)
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: %v", got)
	}
	if diff := cmp.Diff([]float64{4, 1, 3, 2}, xs); diff != "" {
		t.Errorf("the values were moved (-want +got)\n%s", diff)
	}
}

func TestTablesAreThoseOfGitHub(t *testing.T) {
	var text strings.Builder
	Report{&text}.Table("speed", []string{"server", "req/s"}, [][]string{{"µ", "1.5k"}, {"nginx", "12k"}})
	want := "speed:\n\n| server | req/s |\n|--------|------:|\n| µ      |  1.5k |\n| nginx  |   12k |\n\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
