package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestKilledIndexerCountsEachLogOnce(t *testing.T) {
	t.Parallel()
	for name, newURL := range map[string]func(*testing.T) string{"sqlite": sqliteURL, "postgres": postgresURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			d := newDevnet(t, devnet.Options{Interval: -1, EVMRange: 10})
			expect.NoError(t, d.EVM().SetFault(devnet.Fault{Latency: 2 * time.Millisecond, Jitter: 6 * time.Millisecond}))
			killRepeatedly(t, d, url)
			indexAll(t, d, url)
			uninterrupted := newURL(t)
			indexAll(t, d, uninterrupted)
			expectSameRows(t, uninterrupted, url)
			expectChain(t, openURL(t, url), d)
		})
	}
}

// killRepeatedly starts the indexer eight times, and kills it each time: soon after its start, or while it reads and writes windows.
func killRepeatedly(t *testing.T, d *devnet.Devnet, url string) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	sleepUpTo := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	for start := range 8 {
		d.Advance(300 + random.Int64N(100)) // more blocks than it indexes before it is killed
		enough := d.Stats().EVM + 1 + random.Int64N(40)
		p := startProgram(t, nil, indexArgs(d, url, "--follow")...)
		if start%4 == 0 {
			sleepUpTo(400 * time.Millisecond)
		} else {
			p.waitFor("requests to the execution client", func() bool { return d.Stats().EVM >= enough })
			sleepUpTo(40 * time.Millisecond)
		}
		p.expectRunning()
		p.kill()
	}
	d.Advance(100) // leaves blocks for the next run
}
