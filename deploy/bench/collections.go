package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"time"
)

func collectionsPart() part {
	return part{
		name: "collections", about: "import and pages of 10^6 collections, SQLite and PostgreSQL",
		needs: []tool{initdbTool, postgresTool}, run: runCollections,
	}
}

// pageGoal is what the p99 of the pages at small offsets should be below.
const pageGoal = 50 * time.Millisecond

// listed is a store and what was measured of it.
type listed struct {
	name, url string
	importing time.Duration
	series    []pages
}

func runCollections(ctx context.Context, b *bench) error {
	collections, asks := 1_000_000, 200
	if b.short {
		collections, asks = 50_000, 20
	}
	file := filepath.Join(b.dir, "collections.jsonl")
	if err := writeCollections(file, collections); err != nil {
		return err
	}
	server, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	d, err := b.devnet(ctx, still)
	if err != nil {
		return err
	}
	stores := []*listed{{name: "SQLite", url: "sqlite:" + filepath.Join(b.dir, "collections.db")}, {name: "PostgreSQL", url: server}}
	for _, s := range stores {
		s.series = pagesOf(collections, asks)
		if err := b.list(ctx, d, s, file); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	b.reportCollections(collections, stores)
	return nil
}

// list fills a store and asks for its pages.
func (b *bench) list(ctx context.Context, d *devnetProc, s *listed, file string) error {
	began := time.Now()
	load := exec.CommandContext(ctx, b.bin, "import", "--store", s.url, file)
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("import: %w\n%s", err, out)
	}
	s.importing = time.Since(began)
	t, err := b.tipcache(ctx, d, "--store", s.url, "--collections-auth", "none")
	if err != nil {
		return err
	}
	defer t.stop()
	for i := range s.series {
		if err := s.series[i].ask(ctx, t.url); err != nil {
			return fmt.Errorf("%s: %w", s.series[i].name, err)
		}
	}
	return nil
}

func (b *bench) reportCollections(collections int, stores []*listed) {
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
			row = append(row, fmt.Sprintf("%.2f", median(took)), fmt.Sprintf("%.2f", quantile(took, 0.99)))
		}
		rows = append(rows, row)
	}
	b.out.table(fmt.Sprintf("Import of %d collections", collections), []string{"store", "seconds", "collections/s"}, imports)
	b.out.table("Collections", head, rows)
	for _, s := range stores {
		worst, word := s.worst(), "met"
		if worst > milliseconds(pageGoal) {
			word = "missed"
		}
		b.out.note("%s: the goal of a p99 below %v at small offsets is %s, the worst is %.2f ms.", s.name, pageGoal, word, worst)
	}
}

// worst is the greatest p99 of the series that the goal is for.
func (s *listed) worst() float64 {
	worst := math.Inf(-1)
	for _, p := range s.series {
		if p.goal {
			worst = max(worst, quantile(p.took, 0.99))
		}
	}
	return worst
}
