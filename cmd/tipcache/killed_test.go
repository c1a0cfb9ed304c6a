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
			killOften(t, d, url)
			indexAll(t, d, url)
			undisturbed := newURL(t)
			indexAll(t, d, undisturbed)
			expectSameRows(t, undisturbed, url)
			expectChain(t, openURL(t, url), d)
		})
	}
}

// killOften has the indexer run many times, and kills it each time: some time
// after its start, or while it asks for windows and writes them.
func killOften(t *testing.T, d *devnet.Devnet, url string) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	for life := range 8 {
		d.Advance(300 + random.Int64N(100)) // more than it counts before it is killed
		enough := d.Stats().EVM + 1 + random.Int64N(40)
		p := startProgram(t, nil,
			"index", "--follow", "--evm", d.EVMURL(), "--network", "aeneid", "--store", url)
		if life%4 == 0 {
			upTo(400 * time.Millisecond)
		} else {
			p.until(func() bool { return d.Stats().EVM >= enough })
			upTo(40 * time.Millisecond)
		}
		p.alive()
		p.kill()
	}
	d.Advance(100) // so that something is left to do
}

// until waits for something that happens while the program runs.
func (p *program) until(ok func() bool) {
	p.t.Helper()
	for began := time.Now(); !ok(); {
		p.alive()
		if time.Since(began) > time.Minute {
			p.t.Fatalf("timed out waiting; output: %s", p.said.String())
		}
		time.Sleep(time.Millisecond)
	}
}
