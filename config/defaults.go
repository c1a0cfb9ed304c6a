package config

import "time"

// Default is the configuration that works beside a node on its default ports.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Admin:  "127.0.0.1:9090",
		Chain: Chain{
			Nodes:         []string{"http://127.0.0.1:1317"},
			Comet:         []string{"http://127.0.0.1:26657"},
			PostRate:      "50/s burst 100",
			MaxPost:       1 << 20,
			Shape:         "documented",
			Auth:          "none",
			MaxPageLimit:  100_000,
			Timeout:       5 * time.Second,
			MaxBody:       64 << 20,
			InFlight:      4,
			Scans:         1,
			Queue:         2 * time.Second,
			BlockInterval: 2100 * time.Millisecond,
			MaxBlockAge:   30 * time.Second,
			RollbackAfter: 10 * time.Second,
			MinHeightWait: 10 * time.Second,
		},
		Classes: Classes{
			Live: Class{
				FreshBlocks: ptr[int64](0), StaleBlocks: ptr[int64](5), ErrorBlocks: ptr[int64](1000),
				Fresh: ptr(2 * time.Second), Stale: ptr(15 * time.Second), StaleIfError: ptr(30 * time.Minute),
			},
			Params: Class{
				FreshBlocks: ptr[int64](30), StaleBlocks: ptr[int64](600), ErrorBlocks: ptr[int64](40_000),
				Fresh: ptr(time.Minute), Stale: ptr(20 * time.Minute), StaleIfError: ptr(24 * time.Hour),
			},
			Pinned:   time.Hour,
			Negative: 3 * time.Second,
		},
		Cache: Cache{Memory: Auto, Flight: 10 * time.Second, Lease: 3 * time.Second, Patience: 100 * time.Millisecond, ReadAhead: 0.1, Waiters: 10_000},
		Redis: Redis{URL: "none", Timeout: 100 * time.Millisecond},
		Collections: Collections{
			Store: "sqlite:tipcache.db", Auth: "closed", Rate: "0",
			Timeout: 5 * time.Second, Fresh: 5 * time.Second, Stale: time.Minute, OnError: time.Hour,
		},
		Index: Index{
			EVM: []string{"http://127.0.0.1:8545"}, Network: "story",
			Window: 10_000, Ahead: 4, Poll: time.Second, Timeout: 30 * time.Second,
		},
		Metadata: Metadata{
			Provider: "none", Network: "story-mainnet",
			Budget: 500 * time.Millisecond, Timeout: 5 * time.Second, Batch: 100,
		},
		HTTP: HTTP{
			FastLane: true,
			Request:  15 * time.Second, Header: 5 * time.Second, Idle: 2 * time.Minute,
			Rate: "0", MaxConnections: 10_000, MaxStreams: 5_000, ClientStreams: 100, CORSOrigins: []string{"*"},
			MaxHeader: 16 << 10, MaxURL: 8 << 10, Drain: 20 * time.Second,
		},
		Log:     Log{Level: "info", Format: "auto", Access: true, Sample: 1},
		Tracing: Tracing{Ratio: 0.01},
	}
}

func ptr[T any](v T) *T { return &v }

// Over lays the keys that c sets over base.
func (c Class) Over(base Class) Class {
	return Class{
		FreshBlocks:  first(c.FreshBlocks, base.FreshBlocks),
		StaleBlocks:  first(c.StaleBlocks, base.StaleBlocks),
		ErrorBlocks:  first(c.ErrorBlocks, base.ErrorBlocks),
		Fresh:        first(c.Fresh, base.Fresh),
		Stale:        first(c.Stale, base.Stale),
		StaleIfError: first(c.StaleIfError, base.StaleIfError),
	}
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
