package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// indexRun is a `tipcache index` of an endpoint into a store, and what was measured
// of it.
type indexRun struct {
	store   string
	blocks  int64         // most that the endpoint gives in a call
	ahead   int           // requests under way at once
	stretch time.Duration // from a steady state on; 0 for the whole chain

	chain   *devnet.Devnet
	url     string        // of the store
	moments []indexMoment // the beginning, and one a second
}

const (
	indexLatency     = 20 * time.Millisecond // of every request
	indexCollections = 125_000               // have so long a history
	usualAhead       = 4                     // the default of index.ahead
	sqliteStore      = "SQLite"
	postgresStore    = "PostgreSQL"
)

// Index measures a chain that is indexed from its beginning.
func Index(ctx context.Context, r *rig.Rig) error {
	history, stretch := indexCollections, time.Minute
	if r.Short {
		history, stretch = 1000, 3*time.Second
	}
	d, err := r.Chain(devnet.Options{
		Seed: 1, Interval: -1, Collections: history, EVMChainID: 1514, Faults: devnet.Faults{EVM: devnet.Fault{Latency: indexLatency}},
	})
	if err != nil {
		return err
	}
	server, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	runs := []*indexRun{
		{store: sqliteStore, blocks: 10_000, ahead: usualAhead},
		{store: postgresStore, blocks: 10_000, ahead: usualAhead},
		{store: sqliteStore, blocks: 1000, ahead: usualAhead},
		{store: sqliteStore, blocks: 10, ahead: usualAhead, stretch: stretch},
		{store: sqliteStore, blocks: 10, ahead: 4 * usualAhead, stretch: stretch},
	}
	for i, x := range runs {
		x.chain, x.url, x.moments = d, server, make([]indexMoment, 1)
		if x.store == sqliteStore {
			x.url = "sqlite:" + filepath.Join(r.Dir, fmt.Sprintf("index-%d.db", i))
		}
		if err := x.run(ctx, r); err != nil {
			return fmt.Errorf("%s, %d blocks: %w", x.store, x.blocks, err)
		}
	}
	reportIndex(r, runs)
	return nil
}

// run runs `tipcache index` until it has the whole chain, or for the stretch.
func (x *indexRun) run(ctx context.Context, r *rig.Rig) error {
	x.chain.ResetStats()
	if err := x.chain.EVM().SetLimits(x.blocks, devnet.RefuseParams); err != nil {
		return err
	}
	p, admin, err := r.Index(ctx, x.chain, x.url, []string{fmt.Sprintf("TIPCACHE_INDEX_AHEAD=%d", x.ahead)}, "--from", "1")
	if err != nil {
		return err
	}
	defer p.Stop()
	whole, err := x.watch(ctx, p, admin)
	if err != nil || !whole {
		return err
	}
	if err := p.Wait(); err != nil {
		return err
	}
	return rig.Indexed(ctx, x.chain, x.url)
}

// indexMoment is how far an indexer has come.
type indexMoment struct {
	at              time.Duration // since it began
	blocks, logs    int64         // taken over
	requests, calls int64         // that the endpoint got
	usage           rig.Usage
}

// settling is before the stretch: what the endpoint gives is found out in it.
func (x *indexRun) settling() time.Duration { return x.stretch / 4 }

// watch notes a moment each second until the process has ended or the stretch is
// over.
func (x *indexRun) watch(ctx context.Context, p *rig.Process, admin string) (whole bool, err error) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.Ended():
			x.finish(time.Since(began))
			return true, nil
		case <-tick.C:
			x.note(ctx, p, admin, time.Since(began))
			if x.stretch > 0 && time.Since(began) > x.settling()+x.stretch {
				return false, nil
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// note takes a moment, unless the process has just ended.
func (x *indexRun) note(ctx context.Context, p *rig.Process, admin string, at time.Duration) {
	used, err := p.Usage()
	if err != nil {
		return
	}
	text, err := rig.Get(ctx, admin+"/metrics")
	if err != nil {
		return
	}
	m, stats := rig.ParseSamples(text), x.chain.EVM().Stats()
	moment := indexMoment{
		at: at, usage: used, requests: stats.Requests,
		blocks: int64(m.Sum("tipcache_indexer_cursor_block")), logs: int64(m.Sum("tipcache_indexer_logs_total")),
	}
	for _, n := range stats.Calls {
		moment.calls += n
	}
	x.moments = append(x.moments, moment)
}

// finish notes the end. The process has ended before it could tell of its last
// logs: they are taken to be as dense as those before.
func (x *indexRun) finish(at time.Duration) {
	end, height := x.last(), x.chain.EVM().Height()
	end.logs = end.logs * height / max(1, end.blocks)
	end.at, end.blocks = at, height
	x.moments = append(x.moments, end)
}

func (x *indexRun) last() indexMoment { return x.moments[len(x.moments)-1] }

// steady is the moment after which the pace is that of the whole run.
func (x *indexRun) steady() indexMoment {
	i := slices.IndexFunc(x.moments, func(m indexMoment) bool { return m.at >= x.settling() })
	return x.moments[max(0, i)]
}

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
		rows = append(rows, figures.Row(
			fmt.Sprintf("%d, %s", x.blocks, x.store), x.ahead, pace(from.requests, to.requests),
			fmt.Sprintf("%.1f", float64(to.calls-from.calls)/float64(to.requests-from.requests)),
			pace(from.blocks, to.blocks), pace(from.logs, to.logs),
			fmt.Sprintf("%.1f", (to.usage.CPU-from.usage.CPU).Seconds()/float64(to.logs-from.logs)*1e6),
			figures.Mebibytes(float64(half.usage.RSS)), figures.Mebibytes(float64(to.usage.RSS)), x.density(), whole,
		))
	}
	r.Table(fmt.Sprintf("Indexing %.3g M blocks with %.3g M logs, %v a request", float64(all)/1e6, float64(runs[0].last().logs)/1e6, indexLatency), head, rows)
	r.Note("For 10 blocks in a call the whole chain is reckoned from the pace of %v, %v after the beginning, while the store is small.",
		runs[len(runs)-1].stretch, runs[len(runs)-1].settling())
}
