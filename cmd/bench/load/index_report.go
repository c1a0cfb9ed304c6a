package load

import (
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// reportIndexMemory tells what the indexing processes that took the whole chain
// held.
func reportIndexMemory(r *rig.Rig, runs []*indexRun) {
	all := runs[0].last().logs
	marks := []int64{all / 10, all / 5, all / 2, all}
	head := []string{"store, blocks in a call"}
	for _, m := range marks {
		head = append(head, "RSS MiB at "+figures.Millions(m))
	}
	head = append(head, "median, "+figures.Millions(all/5)+" to half", "second half", "")
	var rows [][]string
	for _, x := range runs {
		if x.stretch > 0 {
			continue
		}
		row := []string{fmt.Sprintf("%s, %d", x.store, x.blocks)}
		for _, m := range marks {
			row = append(row, figures.Mebibytes(float64(x.firstWith(m).usage.RSS)))
		}
		first, second := x.held(all/5, all/2), x.held(all/2, all)
		word := "flat"
		if second > 1.1*first {
			word = "grows"
		}
		rows = append(rows, append(row, figures.Mebibytes(first), figures.Mebibytes(second), word))
	}
	r.Table(fmt.Sprintf("Memory of `tipcache index` over %s logs", figures.Millions(all)), head, rows)
}

// firstWith is the first moment with so many logs, or the last.
func (x *indexRun) firstWith(logs int64) indexMoment {
	if i := slices.IndexFunc(x.moments, func(m indexMoment) bool { return m.logs >= logs }); i >= 0 {
		return x.moments[i]
	}
	return x.last()
}

// held is the memory held while there were so many logs, the median.
func (x *indexRun) held(from, to int64) float64 {
	var rss []float64
	for _, m := range x.moments {
		if m.logs >= from && m.logs <= to {
			rss = append(rss, float64(m.usage.RSS))
		}
	}
	return figures.Median(rss)
}

// reportIndexTime tells how long the whole chain takes, or took.
func reportIndexTime(r *rig.Rig, runs []*indexRun) {
	head := []string{"blocks in a call, store", "at once", "requests/s", "calls/request", "blocks/s", "logs/s", "CPU s per million logs", "whole chain"}
	all := runs[0].chain.EVM().Height()
	var rows [][]string
	for _, x := range runs {
		from, to := x.steady(), x.last()
		seconds := (to.at - from.at).Seconds()
		pace := func(a, b int64) string { return fmt.Sprintf("%.0f", float64(b-a)/seconds) }
		whole := to.at.Round(time.Second)
		if x.stretch > 0 {
			whole = time.Duration(float64(all) / float64(to.blocks-from.blocks) * float64(to.at-from.at)).Round(time.Minute)
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d, %s", x.blocks, x.store), fmt.Sprint(x.ahead), pace(from.requests, to.requests),
			fmt.Sprintf("%.1f", float64(to.calls-from.calls)/float64(to.requests-from.requests)),
			pace(from.blocks, to.blocks), pace(from.logs, to.logs),
			fmt.Sprintf("%.1f", (to.usage.CPU-from.usage.CPU).Seconds()/float64(to.logs-from.logs)*1e6), fmt.Sprint(whole),
		})
	}
	r.Table(fmt.Sprintf("Indexing %s blocks with %s logs, %v a request", figures.Millions(all), figures.Millions(runs[0].last().logs), indexLatency), head, rows)
	r.Note("For 10 blocks in a call the whole chain is reckoned from the pace of %v, %v after the beginning, while the store is small.",
		runs[len(runs)-1].stretch, runs[len(runs)-1].settling())
}
