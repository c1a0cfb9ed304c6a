package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// held is what a replica holds at a moment of a run.
type held struct {
	at     time.Duration
	values [kinds]float64 // as in measured
}

// kinds is how many things are measured.
const kinds = 4

// measured are the values of held, and by how much each may grow: by that share and that
// many more.
var measured = [kinds]struct {
	name              string
	unit, share, more float64
}{{"RSS MiB", 1 << 20, 0.15, 0}, {"goroutines", 1, 0.10, 10}, {"fds", 1, 0.10, 10}, {"live MiB", 1 << 20, 0.15, 2 << 20}}

// watchHeld looks every 30 s, and 20 times at least in a run of that length, until ctx
// ends. A look that fails, since the replica is away, is left out.
func watchHeld(ctx context.Context, r *rig.Replica, length time.Duration) (all []held) {
	began := time.Now()
	for rig.Pause(ctx, max(time.Second, min(30*time.Second, length/20))) {
		if values, err := look(ctx, r); err == nil {
			all = append(all, held{time.Since(began), values})
		}
	}
	return all
}

// look says what is held now. The heap is collected first: what lives shows what
// leaks, while the resident set follows the garbage that the collector leaves.
func look(ctx context.Context, r *rig.Replica) ([kinds]float64, error) {
	_, collected := rig.Get(ctx, r.Admin+"/debug/pprof/heap?gc=1")
	u, used := r.Usage()
	m, told := r.Metrics(ctx)
	return [kinds]float64{float64(u.RSS), m["go_goroutines"], float64(u.FDs), m["go_memstats_heap_alloc_bytes"]}, errors.Join(collected, used, told)
}

// averages are of the looks from one time of a run to another; the last look may
// come a little late.
func averages(all []held, from, to time.Duration) (average [kinds]float64) {
	n := 0.0
	for _, h := range all {
		if from < h.at && h.at <= to+time.Second {
			n++
			for i, v := range h.values {
				average[i] += v
			}
		}
	}
	for i := range average {
		average[i] /= n
	}
	return average
}

// reportGrowth prints the averages early in a run of that length, when what fills
// up is full, and at its end: of the third and fourth minute and the last two, or
// of the second quarter and the last where a run is shorter than eight minutes. It
// is an error that names what has grown by more than it may.
func reportGrowth(r *rig.Rig, title string, all []held, length time.Duration) error {
	part := min(length/4, 2*time.Minute)
	early, late := averages(all, part, 2*part), averages(all, length-part, length)
	var rows [][]string
	var errs []error
	for i, m := range measured {
		from, to := early[i]/m.unit, late[i]/m.unit
		most := from*(1+m.share) + m.more/m.unit
		if !(to <= most) { // not a number is no proof either
			errs = append(errs, fmt.Errorf("%s grew from %.1f to %.1f", m.name, from, to))
		}
		rows = append(rows, figures.Row(m.name, from, to, fmt.Sprintf("%+.1f %%", 100*(to/from-1)), most))
	}
	r.Table(title, []string{"of", "early", "late", "growth", "at most"}, rows)
	return errors.Join(errs...)
}
