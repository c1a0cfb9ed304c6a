package peers

import (
	"errors"

	"github.com/tipcache/tipcache/cmd/bench/figures"
)

// bareGin is the server that the others are compared with.
const bareGin = "bare gin"

// report prints a table for each case, and one of tipcache against the others. It
// is an error that has what failed.
func (p *peersRun) report() error {
	var failed []error
	for _, c := range p.cases {
		var rows [][]string
		for _, n := range p.Connections {
			for _, s := range p.servers {
				if at := (cell{s.name, c.name, n}); s.target(c) != "" {
					rows, failed = append(rows, p.row(at)), append(failed, p.failed[at])
				}
			}
		}
		p.Table(c.name, []string{"server", "connections", "req/s", "p50 ms", "p99 ms", "CPU s/100k", "RSS MiB", "req/s / Gin", "CPU / Gin"}, rows)
	}
	p.summary()
	p.Note("CPU s/100k is of the server and its children, per 100,000 requests. Figures are medians of %d rounds of %v; ratios are medians of the rounds' ratios.", p.Rounds, p.length)
	return errors.Join(failed...)
}

func (p *peersRun) row(at cell) []string {
	if p.failed[at] != nil {
		return figures.Row(at.server, at.connections, "failed", "", "", "", "", "", "")
	}
	gin := cell{bareGin, at.name, at.connections}
	row := []any{at.server, at.connections, figures.Decimal(figures.Median(p.column(at, rate))/1000) + "k"}
	for _, of := range []func(result) float64{p50, p99, cpu, rss} {
		row = append(row, figures.Median(p.column(at, of)))
	}
	return figures.Row(append(row, p.ratio(at, gin, rate), p.ratio(at, gin, cpu))...)
}

// summary is tipcache against every other server, and its collections against
// its smallest hit.
func (p *peersRun) summary() {
	head := []string{"tipcache: case", "connections"}
	for _, s := range p.servers[1:] {
		head = append(head, "CPU / "+s.name)
	}
	head = append(head, "CPU / small hit", "req/s / small hit")
	var rows [][]string
	for _, c := range p.cases {
		for _, n := range p.Connections {
			at := cell{p.servers[0].name, c.name, n}
			row := []any{c.name, n}
			for _, s := range p.servers[1:] {
				row = append(row, p.ratio(at, cell{s.name, c.name, n}, cpu))
			}
			small := cell{at.server, "small", n}
			rows = append(rows, figures.Row(append(row, p.ratio(at, small, cpu), p.ratio(at, small, rate))...))
		}
	}
	p.Table("tipcache beside the others", head, rows)
}

// ratio is NaN where there is nothing to compare with.
func (p *peersRun) ratio(a, b cell, of func(result) float64) float64 {
	return figures.Median(figures.Ratios(p.column(a, of), p.column(b, of)))
}

// column has nothing of what failed in any round.
func (p *peersRun) column(at cell, of func(result) float64) []float64 {
	if p.failed[at] != nil {
		return nil
	}
	return figures.Each(p.results[at], of)
}

func rate(r result) float64 { return r.PerSecond }
func p50(r result) float64  { return figures.Milliseconds(r.P50) }
func p99(r result) float64  { return figures.Milliseconds(r.P99) }
func cpu(r result) float64  { return r.cpu }
func rss(r result) float64  { return float64(r.rss) / (1 << 20) }
