package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// reportIndexMemory tells what the indexing processes that took the whole chain
// held.
func (b *bench) reportIndexMemory(runs []*indexRun) {
	all := runs[0].evm.logs
	marks := []int64{all / 10, all / 5, all / 2, all}
	head := []string{"store, blocks in a call"}
	for _, m := range marks {
		head = append(head, "RSS MiB at "+millions(m))
	}
	head = append(head, "median, "+millions(all/5)+" to half", "second half", "")
	var rows [][]string
	for _, r := range runs {
		if r.stretch > 0 {
			continue
		}
		row := []string{fmt.Sprintf("%s, %d", r.store, r.blocks)}
		for _, m := range marks {
			row = append(row, mebibytes(float64(r.firstWith(m).usage.rss)))
		}
		first, second := r.held(all/5, all/2), r.held(all/2, all)
		word := "flat"
		if second > 1.1*first {
			word = "grows"
		}
		rows = append(rows, append(row, mebibytes(first), mebibytes(second), word))
	}
	b.out.table(fmt.Sprintf("Memory of `tipcache index` over %s logs", millions(all)), head, rows)
}

// firstWith is the first moment with so many logs, or the last.
func (r *indexRun) firstWith(logs int64) indexMoment {
	if i := slices.IndexFunc(r.moments, func(m indexMoment) bool { return m.logs >= logs }); i >= 0 {
		return r.moments[i]
	}
	return r.last()
}

// held is the memory held while there were so many logs, the median.
func (r *indexRun) held(from, to int64) float64 {
	var rss []float64
	for _, m := range r.moments {
		if m.logs >= from && m.logs <= to {
			rss = append(rss, float64(m.usage.rss))
		}
	}
	return median(rss)
}

// reportIndexTime tells how long the whole chain takes, or took.
func (b *bench) reportIndexTime(runs []*indexRun) {
	head := []string{"blocks in a call, store", "at once", "requests/s", "calls/request", "blocks/s", "logs/s", "CPU s per million logs", "whole chain"}
	var rows [][]string
	for _, r := range runs {
		from, to := r.steady(), r.last()
		seconds := (to.at - from.at).Seconds()
		name := fmt.Sprintf("%d, %s", r.blocks, r.store)
		if r.rate > 0 {
			name += fmt.Sprintf(", %.0f calls/s allowed", r.rate)
		}
		rows = append(rows, []string{
			name, fmt.Sprint(r.ahead),
			fmt.Sprintf("%.0f", float64(to.requests-from.requests)/seconds),
			fmt.Sprintf("%.1f", float64(to.calls-from.calls)/float64(to.requests-from.requests)),
			fmt.Sprintf("%.0f", float64(to.blocks-from.blocks)/seconds),
			fmt.Sprintf("%.0f", float64(to.logs-from.logs)/seconds),
			fmt.Sprintf("%.1f", (to.usage.cpu-from.usage.cpu).Seconds()/float64(to.logs-from.logs)*1e6),
			r.whole(from, to),
		})
	}
	e := &runs[0].evm
	b.out.table(fmt.Sprintf("Indexing %s blocks with %s logs, %v a request", millions(e.head), millions(e.logs), e.latency), head, rows)
	b.out.note("~: the whole %s blocks at the pace of %v, %v after the beginning, while the store is small.",
		millions(wholeChain.head), runs[len(runs)-1].stretch, runs[len(runs)-1].settling())
}

// whole is the time of the whole chain, extrapolated from a stretch of it.
func (r *indexRun) whole(from, to indexMoment) string {
	if r.stretch == 0 {
		return to.at.Round(time.Second).String()
	}
	if to.blocks == from.blocks {
		return "?"
	}
	whole := float64(r.evm.head) / float64(to.blocks-from.blocks) * float64(to.at-from.at)
	return "~" + strings.TrimSuffix(time.Duration(whole).Round(time.Minute).String(), "0s")
}

func millions(n int64) string { return fmt.Sprintf("%g M", float64(n)/1e6) }
