package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
)

func growthPart() part {
	return part{name: "growth", about: "hits and memory at 10^3, 10^5 and 10^6 keys within 64 MiB", run: runGrowth}
}

const (
	growthBudget     = 64 << 20 // bytes of cache.memory
	growthSkew       = 0.9      // s of Zipf's law
	growthValidators = 1100     // times 999 heights are more than a million questions
	growthHeight     = 1000     // the devnet's newest
)

// growthConfig leaves room at the node, whose limits are not measured here, and
// keeps the access log from filling the disk.
const growthConfig = `cache: {memory: 64MiB}
chain: {in_flight: 64}
log: {sample: 0.01}
`

// growthRun is one number of keys with a fresh tipcache.
type growthRun struct {
	keys       int
	warm, test time.Duration // longest warm-up; length of the measurement
	operators  []string
	tipcache   *tipcacheProc
	zipf       *zipf
	peak       float64 // most bytes the cache said it held
}

func runGrowth(ctx context.Context, b *bench) error {
	sizes, run := []int{1_000, 100_000, 1_000_000}, growthRun{warm: 2 * time.Minute, test: 20 * time.Second}
	if b.short {
		sizes, run = []int{1_000, 100_000}, growthRun{warm: 3 * time.Second, test: time.Second}
	}
	d, err := b.devnet(ctx, still, fmt.Sprintf("--validators=%d", growthValidators), "--delegators=4")
	if err != nil {
		return err
	}
	if run.operators, err = operators(ctx, d, growthValidators); err != nil {
		return err
	}
	config, err := b.config("growth", growthConfig)
	if err != nil {
		return err
	}
	var results []growthResult
	for _, run.keys = range sizes {
		result, err := b.grow(ctx, d, config, run)
		if err != nil {
			return fmt.Errorf("%d keys: %w", run.keys, err)
		}
		results = append(results, result)
	}
	b.reportGrowth(results)
	return overBudget(results)
}

// operators are the addresses of the devnet's validators, which are so many.
func operators(ctx context.Context, d *devnetProc, want int) ([]string, error) {
	list, err := get(ctx, fmt.Sprintf("%s/staking/validators?pagination.limit=%d", d.rest, want))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, a := range gjson.Get(list, "msg.validators.#.operator_address").Array() {
		all = append(all, a.String())
	}
	if len(all) != want {
		return nil, fmt.Errorf("the devnet lists %d validators, not %d", len(all), want)
	}
	return all, nil
}

// question is that of a rank: a validator at a height, which never changes.
func (g *growthRun) question(rank int) (path string, height int) {
	return "/staking/validators/" + g.operators[rank%growthValidators], growthHeight - rank/growthValidators
}

func (b *bench) reportGrowth(results []growthResult) {
	var rows [][]string
	for _, r := range results {
		rows = append(rows, []string{
			fmt.Sprint(r.keys), fmt.Sprint(r.warmed), fmt.Sprintf("%.1f %%", 100*r.hits), fmt.Sprintf("%.1f %%", 100*r.best),
			fmt.Sprintf("%.3f", r.hits/r.best), fmt.Sprintf("%.3f", quantile(r.took, 0.5)), fmt.Sprintf("%.3f", quantile(r.took, 0.99)),
			fmt.Sprintf("%.2f", quantile(r.took, 0.5)/quantile(results[0].took, 0.5)),
			fmt.Sprint(r.entries), mebibytes(r.bytes), mebibytes(r.peak), mebibytes(r.rss),
		})
	}
	b.out.table(fmt.Sprintf("Growth: validators at heights, Zipf(%.1f), cache.memory 64 MiB", growthSkew), []string{
		"keys", "warm-up", "hits", "best", "of best", "hit p50 ms", "p99 ms", "p50 / first", "entries", "MiB", "peak MiB", "RSS MiB",
	}, rows)
	b.out.note("Hits are of one client on one connection, request after request. Best is what the most popular entries would hit, if as many as are held were just those.")
}

// overBudget is an error when a cache held more than it may.
func overBudget(results []growthResult) error {
	for _, r := range results {
		if r.peak > growthBudget {
			return fmt.Errorf("with %d keys the cache held %.0f bytes of %d", r.keys, r.peak, growthBudget)
		}
	}
	return nil
}

func mebibytes(bytes float64) string { return fmt.Sprintf("%.1f", bytes/(1<<20)) }
