package load

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// indexCase is a store, an endpoint and how it is asked.
type indexCase struct {
	store   string
	blocks  int64         // most that the endpoint gives in a call
	ahead   int           // requests under way at once
	stretch time.Duration // from a steady state on; 0 for the whole chain
}

const (
	indexLatency     = 20 * time.Millisecond // of every request
	indexCollections = 125_000               // have so long a history
	usualAhead       = 4                     // the default of index.ahead
	sqliteStore      = "SQLite"
	postgresStore    = "PostgreSQL"
)

func indexCases(stretch time.Duration) []indexCase {
	return []indexCase{
		{store: sqliteStore, blocks: 10_000, ahead: usualAhead},
		{store: postgresStore, blocks: 10_000, ahead: usualAhead},
		{store: sqliteStore, blocks: 1000, ahead: usualAhead},
		{store: sqliteStore, blocks: 10, ahead: usualAhead, stretch: stretch},
		{store: sqliteStore, blocks: 10, ahead: 4 * usualAhead, stretch: stretch},
	}
}

// indexRun is a `tipcache index` and what was measured of it.
type indexRun struct {
	indexCase
	chain *devnet.Devnet
	url   string // of the store

	moments []indexMoment // one a second
}

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
	var runs []*indexRun
	for i, c := range indexCases(stretch) {
		x := &indexRun{indexCase: c, chain: d, url: server}
		if c.store == sqliteStore {
			x.url = "sqlite:" + filepath.Join(r.Dir, fmt.Sprintf("index-%d.db", i))
		}
		if err := x.run(ctx, r); err != nil {
			return fmt.Errorf("%s, %d blocks: %w", c.store, c.blocks, err)
		}
		runs = append(runs, x)
	}
	reportIndex(r, runs)
	return nil
}

// run runs `tipcache index` until it has the whole chain, or for the stretch.
func (x *indexRun) run(ctx context.Context, r *rig.Rig) error {
	x.chain.ResetStats()
	if err := x.chain.EVM().SetLimits(x.blocks, 0, devnet.RefuseParams); err != nil {
		return err
	}
	admin := rig.FreeAddr()
	p, err := r.Start(ctx, "index", []string{fmt.Sprintf("TIPCACHE_INDEX_AHEAD=%d", x.ahead)},
		r.Bin, "index", "--evm", x.chain.EVMURL(), "--store", x.url, "--from", "1", "--admin", admin)
	if err != nil {
		return err
	}
	defer p.Stop()
	whole, err := x.watch(ctx, p, "http://"+admin)
	if err != nil || !whole {
		return err
	}
	if err := p.Wait(); err != nil {
		return err
	}
	return x.check(ctx)
}

// check reads the store: it holds what the chain has come to.
func (x *indexRun) check(ctx context.Context) error {
	s, err := drivers.Open(ctx, x.url, collections.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	var assets, want int64
	for q := (collections.Query{Limit: collections.MaxLimit}); ; q.Offset += q.Limit {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		for _, c := range page.Items {
			assets += c.AssetCount
		}
		if len(page.Items) < q.Limit {
			break
		}
	}
	for c := range x.chain.CollectionsAt(x.chain.EVM().Height()) {
		want += c.AssetCount
	}
	if assets != want {
		return fmt.Errorf("the store holds %d assets, the chain %d", assets, want)
	}
	return nil
}
