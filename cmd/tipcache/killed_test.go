package main

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestKilledIndexerCountsEachLogOnce(t *testing.T) {
	t.Parallel()
	for name, newURL := range map[string]func(*testing.T) string{"sqlite": sqliteURL, "postgres": postgresURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			d := newDevnet(t, devnet.Options{Interval: -1, EVMRange: 10})
			must(t, d.EVM().SetFault(devnet.Fault{Latency: 2 * time.Millisecond, Jitter: 6 * time.Millisecond}))
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
	lives, seed := 24, rand.Uint64()
	if testing.Short() {
		lives = 8
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	for life := range lives {
		d.Advance(300 + random.Int64N(100)) // more than it counts before it is killed
		enough := d.Stats().EVM + 1 + random.Int64N(40)
		p := startProgram(t, nil,
			"index", "--follow", "--evm", d.EVMURL(), "--network", "aeneid", "--store", url)
		if life%4 == 0 {
			upTo(400 * time.Millisecond)
		} else {
			p.until(func() bool { return d.Stats().EVM >= enough })
			upTo(10 * time.Millisecond)
			d.Advance(50 + random.Int64N(50)) // so that there is something to write
			if p.untilWritten(url) {
				upTo(200 * time.Microsecond)
			} else {
				upTo(40 * time.Millisecond)
			}
		}
		p.alive()
		p.kill()
		d.Advance(random.Int64N(20))
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

// untilWritten waits for the next commit to an SQLite file, which does not come
// while there is nothing to do, and reports whether it came. Of other stores it
// knows nothing.
func (p *program) untilWritten(url string) bool {
	p.t.Helper()
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		return false
	}
	index, err := os.Open(path + "-shm")
	if err != nil {
		return false // it was not opened yet
	}
	defer index.Close()
	state := func() (header [48]byte) { // of the log's index, which each commit changes
		_, _ = index.ReadAt(header[:], 0)
		return header
	}
	before := state()
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
		p.alive()
		if state() != before {
			return true
		}
	}
	return false
}
