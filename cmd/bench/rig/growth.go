package rig

import (
	"errors"
	"fmt"
	"time"
)

// Growth is a value's average early in the run, when what fills up is full, and
// at its end.
type Growth struct {
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

// Growths are those of all that is measured, in a run of that length.
func Growths(all []Held, length time.Duration) []Growth {
	early, late := windows(length)
	grown := make([]Growth, len(measured))
	for i := range grown {
		grown[i] = Growth{i, average(all, early, i), average(all, late, i)}
	}
	return grown
}

// average is of the i-th value, from the first time on and before the second;
// the last look may come a little late.
func average(all []Held, from [2]time.Duration, i int) float64 {
	sum, n := 0.0, 0
	for _, h := range all {
		if from[0] < h.At && h.At <= from[1]+time.Second {
			sum += h.Values[i]
			n++
		}
	}
	return sum / float64(n)
}

// most is the greatest late value that is no growth; negative for any.
func (g Growth) most() float64 {
	m := measured[g.of]
	return g.early*(1+m.share) + m.more
}

func (g Growth) judged() bool { return measured[g.of].share >= 0 }

// ReportGrowth prints the growths.
func (r *Rig) ReportGrowth(title string, grown []Growth) {
	var rows [][]string
	for _, g := range grown {
		if g.early == 0 && g.late == 0 {
			continue // there is none
		}
		most := ""
		if g.judged() {
			most = inUnits(g.of, g.most())
		}
		rows = append(rows, []string{
			measured[g.of].name, inUnits(g.of, g.early), inUnits(g.of, g.late), fmt.Sprintf("%+.1f %%", 100*(g.late/g.early-1)), most,
		})
	}
	r.Table(title, []string{"of", "early", "late", "growth", "at most"}, rows)
}

// Grew is an error that names what has grown by more than it may.
func Grew(grown []Growth) error {
	var errs []error
	for _, g := range grown {
		if m := measured[g.of]; g.judged() && !(g.late <= g.most()) { // not a number is no proof either
			errs = append(errs, fmt.Errorf("%s grew from %.1f to %.1f", m.name, g.early/m.unit, g.late/m.unit))
		}
	}
	return errors.Join(errs...)
}
