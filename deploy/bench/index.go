package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

func indexPart() part {
	return part{
		name: "index", about: "memory and time of indexing 18 million blocks with 10 million logs",
		needs: []tool{initdbTool, postgresTool}, run: runIndex,
	}
}

// indexCase is a store, an endpoint and how it is asked.
type indexCase struct {
	store   string
	blocks  int64         // most that the endpoint gives in a call
	ahead   int           // requests under way at once
	rate    float64       // calls a second that the endpoint answers; 0 for any number
	stretch time.Duration // from a steady state on; 0 for the whole chain
}

const (
	indexLatency = 20 * time.Millisecond // of every request
	usualAhead   = 4                     // the default of index.ahead
	sqliteStore  = "SQLite"
	postgres     = "PostgreSQL"
)

// wholeChain is as long as Story's was in June 2026. How many logs that has is
// assumed.
var wholeChain = chain{head: 18_000_000, logs: 10_000_000}

func indexCases(stretch time.Duration) []indexCase {
	return []indexCase{
		{store: sqliteStore, blocks: 10_000, ahead: usualAhead},
		{store: postgres, blocks: 10_000, ahead: usualAhead},
		{store: sqliteStore, blocks: 1000, ahead: usualAhead},
		{store: sqliteStore, blocks: 10, ahead: usualAhead, stretch: stretch},
		{store: sqliteStore, blocks: 10, ahead: 4 * usualAhead, stretch: stretch},
		{store: sqliteStore, blocks: 10, ahead: usualAhead, rate: 25, stretch: stretch},
	}
}

func runIndex(ctx context.Context, b *bench) error {
	history, stretch := wholeChain, time.Minute
	if b.short {
		history, stretch = chain{head: 180_000, logs: 100_000}, 3*time.Second
	}
	server, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	var results []*indexRun
	for i, c := range indexCases(stretch) {
		r := &indexRun{indexCase: c, url: server, evm: evm{chain: history, latency: indexLatency, most: c.blocks}}
		if c.stretch > 0 {
			r.evm.chain = wholeChain
		}
		if c.store == sqliteStore {
			r.url = "sqlite:" + filepath.Join(b.dir, fmt.Sprintf("index-%d.db", i))
		}
		if err := b.index(ctx, r); err != nil {
			return fmt.Errorf("%s, %d blocks: %w", c.store, c.blocks, err)
		}
		results = append(results, r)
	}
	b.reportIndexMemory(results)
	b.reportIndexTime(results)
	return nil
}
