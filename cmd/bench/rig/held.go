package rig

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Held is what a replica, and Redis, hold at a moment of a run.
type Held struct {
	At       time.Duration
	Requests int            // of the clients, since the look before
	Values   [kinds]float64 // as in measured
}

// kinds is how many things are measured.
const kinds = 7

// measured are the values of Held, and by how much each may grow: by that share
// and that many more; shares below zero are not judged.
var measured = [kinds]struct {
	name  string
	unit  float64
	share float64
	more  float64
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
	Requests func() int // of the clients, since it was called before; nil: not counted
}

// Run looks every 30 s, and 20 times at least in a run of that length, until ctx
// ends. A look that fails, since the replica is away, is left out.
func (w *Watch) Run(ctx context.Context, length time.Duration) (all []Held, err error) {
	for Pause(ctx, max(time.Second, min(30*time.Second, length/20))) {
		if h, err := w.Look(ctx); err == nil {
			all = append(all, h)
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return all, nil
	}
	return all, ctx.Err()
}

// Look says what is held now. The heap is collected first: what lives shows what
// leaks, while the resident set follows the garbage that the collector leaves.
func (w *Watch) Look(ctx context.Context) (Held, error) {
	if _, err := Get(ctx, w.Replica.Admin+"/debug/pprof/heap?gc=1"); err != nil {
		return Held{}, err
	}
	u, err := w.Replica.Usage()
	if err != nil {
		return Held{}, err
	}
	m, err := w.Replica.Metrics(ctx)
	if err != nil {
		return Held{}, err
	}
	info := Samples{}
	if w.Redis != nil {
		if info, err = w.Redis.Info(ctx, RedisMemory); err != nil {
			return Held{}, err
		}
	}
	requests := 0
	if w.Requests != nil {
		requests = w.Requests()
	}
	return Held{time.Since(w.Began), requests, [kinds]float64{
		float64(u.RSS), m.Sum(Goroutines), float64(u.FDs), m.Sum(CacheBytes), m.Sum(CacheEntries), info[RedisMemory], m.Sum(heapAlloc),
	}}, nil
}

// ReportHeld prints the looks, of which the first is before the run and the last
// after it.
func (r *Rig) ReportHeld(title string, all []Held) {
	head := []string{"at", "requests/s"}
	for _, m := range measured {
		head = append(head, m.name)
	}
	var rows [][]string
	before := time.Duration(0)
	for i, h := range all {
		at := h.At.Round(time.Second).String()
		switch i {
		case 0:
			at = "before"
		case len(all) - 1:
			at = "after"
		}
		row := []string{at, fmt.Sprintf("%.0f", float64(h.Requests)/(h.At-before).Seconds())}
		before = h.At
		for i, v := range h.Values {
			row = append(row, inUnits(i, v))
		}
		rows = append(rows, row)
	}
	r.Table(title, head, rows)
}

// inUnits writes a value of the i-th thing that is measured.
func inUnits(i int, v float64) string {
	decimals := 0
	if measured[i].unit > 1 {
		decimals = 1
	}
	return fmt.Sprintf("%.*f", decimals, v/measured[i].unit)
}
