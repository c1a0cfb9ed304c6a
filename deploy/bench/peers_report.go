package main

import (
	"fmt"
	"math"
	"strconv"
)

// report prints a table for each case, and one of tipcache against the others.
func (p *peersRun) report() {
	for _, c := range p.cases {
		var rows [][]string
		for _, n := range p.connections {
			for _, s := range p.servers {
				if s.target(c) != "" {
					rows = append(rows, p.row(cell{s.name, c.name, n}))
				}
			}
		}
		p.out.table(c.name, []string{"server", "connections", "req/s", "p50 ms", "p99 ms", "CPU s/100k", "RSS MiB", "req/s / Gin", "CPU / Gin"}, rows)
	}
	p.summary()
	p.out.note("CPU s/100k is of the server and its children, per 100,000 requests. Figures are medians of %d rounds of %v; ratios are medians of the rounds' ratios.", p.rounds, p.seconds)
	p.out.note("The node sends no ETag, so nginx and Varnish have no 304 to give, and neither has br.")
}

func (p *peersRun) row(at cell) []string {
	if err := p.failed[at]; err != nil {
		return []string{at.server, strconv.Itoa(at.connections), "failed", "", "", "", "", "", ""}
	}
	gin := cell{"bare " + bareGin, at.name, at.connections}
	return []string{
		at.server, strconv.Itoa(at.connections), thousands(median(p.column(at, rate))),
		decimal(median(p.column(at, p50))), decimal(median(p.column(at, p99))),
		decimal(median(p.column(at, cpu))), decimal(median(p.column(at, rss))),
		decimal(p.ratio(at, gin, rate)), decimal(p.ratio(at, gin, cpu)),
	}
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
		for _, n := range p.connections {
			at := cell{p.servers[0].name, c.name, n}
			row := []string{c.name, strconv.Itoa(n)}
			for _, s := range p.servers[1:] {
				row = append(row, decimal(p.ratio(at, cell{s.name, c.name, n}, cpu)))
			}
			small := cell{at.server, "small", n}
			rows = append(rows, append(row, decimal(p.ratio(at, small, cpu)), decimal(p.ratio(at, small, rate))))
		}
	}
	p.out.table("tipcache beside the others", head, rows)
}

// ratio is NaN where there is nothing to compare with.
func (p *peersRun) ratio(a, b cell, of func(result) float64) float64 {
	if p.failed[a] != nil || p.failed[b] != nil {
		return math.NaN()
	}
	return median(ratios(p.column(a, of), p.column(b, of)))
}

func (p *peersRun) column(at cell, of func(result) float64) []float64 {
	var xs []float64
	for _, r := range p.results[at] {
		xs = append(xs, of(r))
	}
	return xs
}

func rate(r result) float64 { return r.perSecond }
func p50(r result) float64  { return milliseconds(r.p50) }
func p99(r result) float64  { return milliseconds(r.p99) }
func cpu(r result) float64  { return r.cpu }
func rss(r result) float64  { return float64(r.rss) / (1 << 20) }

// decimal has three digits or so; a dash stands for nothing.
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

// thousands is as in 12.3k.
func thousands(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.1fk", x/1000)
}
