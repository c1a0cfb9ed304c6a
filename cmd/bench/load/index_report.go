package load

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// density is what a million logs take in the store, where that is a file.
func (x *indexRun) density() string {
	var size int64
	for _, part := range []string{"", "-wal"} {
		if file, err := os.Stat(strings.TrimPrefix(x.url, "sqlite:") + part); err == nil {
			size += file.Size()
		}
	}
	if size == 0 {
		return ""
	}
	return figures.Mebibytes(float64(size) / float64(x.last().logs) * 1e6)
}

// reportIndex tells how long the whole chain takes, or took, and what the process
// held.
func reportIndex(r *rig.Rig, runs []*indexRun) {
	head := []string{"blocks in a call, store", "at once", "requests/s", "calls/request", "blocks/s", "logs/s", "CPU s per million logs", "RSS MiB at half", "at the end", "store MiB per million logs", "whole chain"}
	all := runs[0].chain.EVM().Height()
	var rows [][]string
	for _, x := range runs {
		from, to := x.steady(), x.last()
		seconds, half := (to.at - from.at).Seconds(), x.moments[len(x.moments)/2]
		pace := func(a, b int64) string { return fmt.Sprintf("%.0f", float64(b-a)/seconds) }
		whole := to.at.Round(time.Second)
		if x.stretch > 0 {
			whole = time.Duration(float64(all) / float64(to.blocks-from.blocks) * float64(to.at-from.at)).Round(time.Minute)
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d, %s", x.blocks, x.store), fmt.Sprint(x.ahead), pace(from.requests, to.requests),
			fmt.Sprintf("%.1f", float64(to.calls-from.calls)/float64(to.requests-from.requests)),
			pace(from.blocks, to.blocks), pace(from.logs, to.logs),
			fmt.Sprintf("%.1f", (to.usage.CPU-from.usage.CPU).Seconds()/float64(to.logs-from.logs)*1e6),
			figures.Mebibytes(float64(half.usage.RSS)), figures.Mebibytes(float64(to.usage.RSS)), x.density(), fmt.Sprint(whole),
		})
	}
	r.Table(fmt.Sprintf("Indexing %s blocks with %s logs, %v a request", figures.Millions(all), figures.Millions(runs[0].last().logs), indexLatency), head, rows)
	r.Note("For 10 blocks in a call the whole chain is reckoned from the pace of %v, %v after the beginning, while the store is small.",
		runs[len(runs)-1].stretch, runs[len(runs)-1].settling())
}
