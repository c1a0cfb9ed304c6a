// Package figures makes medians and quantiles of what was measured and prints
// them in tables.
package figures

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
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

// MedianOf returns the median of a value of each thing.
func MedianOf[A any](xs []A, of func(A) float64) float64 {
	ys := make([]float64, len(xs))
	for i, x := range xs {
		ys[i] = of(x)
	}
	return Median(ys)
}

// MedianRatio returns the median of the ratios of(as[i]) / of(bs[i]). It ignores the surplus of the longer list.
func MedianRatio[A any](as, bs []A, of func(A) float64) float64 {
	ratios := make([]float64, min(len(as), len(bs)))
	for i := range ratios {
		ratios[i] = of(as[i]) / of(bs[i])
	}
	return Median(ratios)
}

// Milliseconds is a time in milliseconds, with fractions.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// decimal writes about three digits, and a dash for what is no number.
func decimal(x float64) string {
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

// A Report prints notes and tables as GitHub renders them.
type Report struct{ W io.Writer }

// Note prints a paragraph.
func (r Report) Note(format string, args ...any) {
	fmt.Fprintf(r.W, format+"\n\n", args...)
}

// Row is a row of a table: about three digits of numbers with fractions, and the
// others as they are.
func Row(cells ...any) []string {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if x, ok := cell.(float64); ok {
			cell = decimal(x)
		}
		row[i] = fmt.Sprint(cell)
	}
	return row
}

// Table prints rows below their head. GitHub aligns columns of numbers, or whose first row is empty, to the right.
func (r Report) Table(title string, head []string, rows [][]string) {
	rule := make([]string, len(head))
	for i := range head {
		rule[i] = "---:"
		if len(rows) > 0 && rows[0][i] != "" && !strings.ContainsRune("0123456789-", rune(rows[0][i][0])) {
			rule[i] = "---"
		}
	}
	fmt.Fprintf(r.W, "%s:\n\n", title)
	w := tabwriter.NewWriter(r.W, 0, 0, 1, ' ', 0)
	for _, row := range slices.Concat([][]string{head, rule}, rows) {
		fmt.Fprintln(w, "| "+strings.Join(row, "\t| ")+"\t|")
	}
	_ = w.Flush() // fails only if the output is closed
	fmt.Fprintln(r.W)
}
