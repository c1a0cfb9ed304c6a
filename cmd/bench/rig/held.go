package rig

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Held is what a replica, and Redis, hold at a moment of a run.
type Held struct {
	At       time.Duration
	Requests int            // of the clients so far
	Values   [kinds]float64 // as in measured
}

// kinds is how many things are measured.
const kinds = 7

// measured are the values of Held, and by how much each may grow: by that share
// and that many more; shares below zero are not judged.
var measured = [kinds]struct {
	name              string
	unit, share, more float64
}{
	{"RSS MiB", 1 << 20, 0.15, 0},
	{"goroutines", 1, 0.10, 10},
	{"fds", 1, 0.10, 10},
	{"cache MiB", 1 << 20, -1, 0},
	{"entries", 1, -1, 0},
	{"Redis MiB", 1 << 20, -1, 0},
	{"live MiB", 1 << 20, 0.15, 2 << 20},
}

// A Watch looks at a replica while it runs.
type Watch struct {
	Replica  *Replica
	Redis    *Redis // nil: none
	Began    time.Time
	Requests atomic.Int64 // of the clients so far, who count them
}

// Run looks every 30 s, and 20 times at least in a run of that length, until ctx
// ends. A look that fails, since the replica is away, is left out.
func (w *Watch) Run(ctx context.Context, length time.Duration) (all []Held) {
	for Pause(ctx, max(time.Second, min(30*time.Second, length/20))) {
		if h, err := w.Look(ctx); err == nil {
			all = append(all, h)
		}
	}
	return all
}

// Look says what is held now. The heap is collected first: what lives shows what
// leaks, while the resident set follows the garbage that the collector leaves.
func (w *Watch) Look(ctx context.Context) (Held, error) {
	_, collected := Get(ctx, w.Replica.Admin+"/debug/pprof/heap?gc=1")
	u, used := w.Replica.Usage()
	m, told := w.Replica.Metrics(ctx)
	var info Samples
	var informed error
	if w.Redis != nil {
		info, informed = w.Redis.Info(ctx)
	}
	return Held{time.Since(w.Began), int(w.Requests.Load()), [kinds]float64{
		float64(u.RSS), m["go_goroutines"], float64(u.FDs), m["tipcache_cache_memory_bytes"], m["tipcache_cache_memory_entries"],
		info["used_memory"], m["go_memstats_heap_alloc_bytes"],
	}}, errors.Join(collected, used, told, informed)
}

// ReportHeld prints the looks, of which the first is before the run and the last
// after it.
func (r *Rig) ReportHeld(title string, all []Held) {
	head := []string{"at", "requests/s"}
	for _, m := range measured {
		head = append(head, m.name)
	}
	var rows [][]string
	before := Held{}
	for i, h := range all {
		at := h.At.Round(time.Second).String()
		switch i {
		case 0:
			at = "before"
		case len(all) - 1:
			at = "after"
		}
		row := []string{at, fmt.Sprintf("%.0f", float64(h.Requests-before.Requests)/(h.At-before.At).Seconds())}
		before = h
		for i, v := range h.Values {
			row = append(row, inUnits(i, v))
		}
		rows = append(rows, row)
	}
	r.Table(title, head, rows)
}

// inUnits writes a value of the i-th thing that is measured.
func inUnits(i int, v float64) string {
	if measured[i].unit > 1 {
		return fmt.Sprintf("%.1f", v/measured[i].unit)
	}
	return fmt.Sprintf("%.0f", v)
}

// averages are of the looks from one time of a run to another; the last look may
// come a little late.
func averages(all []Held, from, to time.Duration) (average [kinds]float64) {
	n := 0.0
	for _, h := range all {
		if from < h.At && h.At <= to+time.Second {
			n++
			for i, v := range h.Values {
				average[i] += v
			}
		}
	}
	for i := range average {
		average[i] /= n
	}
	return average
}

// ReportGrowth prints the averages early in a run of that length, when what fills
// up is full, and at its end: of the third and fourth minute and the last two, or
// of the second quarter and the last where a run is shorter than eight minutes. It
// is an error that names what has grown by more than it may.
func (r *Rig) ReportGrowth(title string, all []Held, length time.Duration) error {
	part := min(length/4, 2*time.Minute)
	early, late := averages(all, part, 2*part), averages(all, length-part, length)
	var rows [][]string
	var errs []error
	for i, m := range measured {
		from, to := early[i], late[i]
		if from == 0 && to == 0 {
			continue // there is none
		}
		row := []string{m.name, inUnits(i, from), inUnits(i, to), fmt.Sprintf("%+.1f %%", 100*(to/from-1)), ""}
		if m.share >= 0 {
			most := from*(1+m.share) + m.more
			row[4] = inUnits(i, most)
			if !(to <= most) { // not a number is no proof either
				errs = append(errs, fmt.Errorf("%s grew from %.1f to %.1f", m.name, from/m.unit, to/m.unit))
			}
		}
		rows = append(rows, row)
	}
	r.Table(title, []string{"of", "early", "late", "growth", "at most"}, rows)
	return errors.Join(errs...)
}
