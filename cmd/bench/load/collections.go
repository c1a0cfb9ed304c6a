package load

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// pageGoal is what the p99 of the pages at small offsets should be below.
const pageGoal = 50 * time.Millisecond

// listed is a store and what was measured of it.
type listed struct {
	name, url string
	importing time.Duration
	series    []pages
}

// Collections measures a large collection store.
func Collections(ctx context.Context, r *rig.Rig) error {
	collections, asks := 1_000_000, 200
	if r.Short {
		collections, asks = 50_000, 20
	}
	server, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	d, err := r.Chain(rig.Still)
	if err != nil {
		return err
	}
	stores := []*listed{{name: "SQLite", url: "sqlite:" + filepath.Join(r.Dir, "collections.db")}, {name: "PostgreSQL", url: server}}
	for _, s := range stores {
		s.series = pagesOf(collections, asks)
		if err := s.list(ctx, r, d, collections); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	reportCollections(r, collections, stores)
	return nil
}

// list fills a store and asks for its pages.
func (s *listed) list(ctx context.Context, r *rig.Rig, d *devnet.Devnet, collections int) (err error) {
	if s.importing, err = importCollections(ctx, r, s.url, collections); err != nil {
		return err
	}
	t, err := r.Replica(ctx, rig.Before(d, "--store", s.url, "--collections-auth", "none"))
	if err != nil {
		return err
	}
	defer t.Stop()
	for i := range s.series {
		if err := s.series[i].ask(ctx, t.URL); err != nil {
			return fmt.Errorf("%s: %w", s.series[i].name, err)
		}
	}
	return nil
}

func reportCollections(r *rig.Rig, collections int, stores []*listed) {
	var imports, rows [][]string
	head := []string{"pages of 20, read from the store", "of"}
	for _, s := range stores {
		imports = append(imports, []string{s.name, fmt.Sprintf("%.1f", s.importing.Seconds()), fmt.Sprintf("%.0f", float64(collections)/s.importing.Seconds())})
		head = append(head, s.name+" p50 ms", "p99 ms")
	}
	for i, p := range stores[0].series {
		row := []string{p.name, fmt.Sprint(p.total)}
		for _, s := range stores {
			took := s.series[i].took
			row = append(row, fmt.Sprintf("%.2f", figures.Median(took)), fmt.Sprintf("%.2f", figures.Quantile(took, 0.99)))
		}
		rows = append(rows, row)
	}
	r.Table(fmt.Sprintf("Import of %d collections", collections), []string{"store", "seconds", "collections/s"}, imports)
	r.Table("Collections", head, rows)
	for _, s := range stores {
		worst, word := s.worst(), "met"
		if worst > figures.Milliseconds(pageGoal) {
			word = "missed"
		}
		r.Note("%s: the goal of a p99 below %v at small offsets is %s, the worst is %.2f ms.", s.name, pageGoal, word, worst)
	}
}

// worst is the greatest p99 of the series that the goal is for.
func (s *listed) worst() float64 {
	worst := math.Inf(-1)
	for _, p := range s.series {
		if p.goal {
			worst = max(worst, figures.Quantile(p.took, 0.99))
		}
	}
	return worst
}
