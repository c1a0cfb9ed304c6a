package main

import (
	"errors"
	"fmt"
	"time"
)

// growth is a value's average early in the run, when what fills up is full, and
// at its end.
type growth struct {
	of          int // index in measured
	early, late float64
}

// windows are the third and fourth minute and the last two; of a run shorter
// than eight minutes the second quarter and the last.
func windows(length time.Duration) (early, late [2]time.Duration) {
	if length >= 8*time.Minute {
		return [2]time.Duration{2 * time.Minute, 4 * time.Minute}, [2]time.Duration{length - 2*time.Minute, length}
	}
	return [2]time.Duration{length / 4, length / 2}, [2]time.Duration{length * 3 / 4, length}
}

func growths(all []held, length time.Duration) []growth {
	early, late := windows(length)
	grown := make([]growth, len(measured))
	for i := range grown {
		grown[i] = growth{i, average(all, early, i), average(all, late, i)}
	}
	return grown
}

// average is of the i-th value, from the first time on and before the second;
// the last look may come a little late.
func average(all []held, from [2]time.Duration, i int) float64 {
	sum, n := 0.0, 0
	for _, h := range all {
		if from[0] < h.at && h.at <= from[1]+time.Second {
			sum += h.values[i]
			n++
		}
	}
	return sum / float64(n)
}

// most is the greatest late value that is no growth; negative for any.
func (g growth) most() float64 {
	m := measured[g.of]
	return g.early*(1+m.share) + m.more
}

func (g growth) judged() bool { return measured[g.of].share >= 0 }

func growthRows(grown []growth) [][]string {
	var rows [][]string
	for _, g := range grown {
		m := measured[g.of]
		most := ""
		if g.judged() {
			most = fmt.Sprintf("%.*f", decimals(m.unit), g.most()/m.unit)
		}
		rows = append(rows, []string{
			m.name, fmt.Sprintf("%.*f", decimals(m.unit), g.early/m.unit), fmt.Sprintf("%.*f", decimals(m.unit), g.late/m.unit),
			fmt.Sprintf("%+.1f %%", 100*(g.late/g.early-1)), most,
		})
	}
	return rows
}

// grew is an error that names what has grown by more than it may.
func grew(grown []growth) error {
	var errs []error
	for _, g := range grown {
		if g.judged() && !(g.late <= g.most()) { // not a number is no proof either
			errs = append(errs, fmt.Errorf("%s grew from %.1f to %.1f", measured[g.of].name, g.early/measured[g.of].unit, g.late/measured[g.of].unit))
		}
	}
	return errors.Join(errs...)
}
