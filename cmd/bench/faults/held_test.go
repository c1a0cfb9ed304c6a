package faults

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// looks are of every half minute; value gives that of a minute.
func looks(length time.Duration, value func(minute float64) [kinds]float64) []held {
	var all []held
	for at := 30 * time.Second; at <= length; at += 30 * time.Second {
		all = append(all, held{at: at, values: value(at.Minutes())})
	}
	return all
}

func silent() *rig.Rig { return &rig.Rig{Options: rig.Options{Report: figures.Report{W: io.Discard}}} }

func TestGrowthIsJudgedAfterTheFirstMinutes(t *testing.T) {
	const length = 10 * time.Minute
	tests := []struct {
		name  string
		value func(minute float64) [kinds]float64
		want  []string // what grew
	}{
		{"all is full after two minutes", func(m float64) [kinds]float64 {
			full := min(m, 2)
			return [kinds]float64{100 * full, 50 * full, 50 * full, full}
		}, nil},
		{"a few more are within the bounds", func(m float64) [kinds]float64 { return [kinds]float64{1000 + 10*m, 60 + m, 60 + m, 1} }, nil},
		{"a goroutine a second", func(m float64) [kinds]float64 { return [kinds]float64{1, 100 + 60*m, 100, 1} }, []string{"goroutines"}},
		{"everything leaks", func(m float64) [kinds]float64 { return [kinds]float64{m, 100 * m, 100 * m, m * (1 << 20)} }, []string{"RSS", "goroutines", "fds", "live"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := reportGrowth(silent(), "growth", looks(length, tt.value), length)
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("error %v, want one of %v", err, tt.want)
			}
			for _, name := range tt.want {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("error %v, want %s in it", err, name)
				}
			}
		})
	}
}

func TestARunWithoutLooksProvesNothing(t *testing.T) {
	if err := reportGrowth(silent(), "growth", nil, time.Minute); err == nil {
		t.Error("no error")
	}
}
