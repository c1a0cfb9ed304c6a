package devnet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/devnet/story"
)

// A chain makes blocks. What the REST API tells of them is up to the dialect.
type chain struct {
	id       string
	seed     uint64
	interval time.Duration // between blocks; negative: only advance makes them
	lead     time.Duration // between propose and commit
	first    int64         // the height at the start
	evmStart int64         // the block of the execution client that it carries
	cosmos   *cosmos.Chain // nil in the dialect of Story
	story    *story.Chain  // nil in the other
	staking  *state.Chain  // of either

	notice                 // of blocks
	committed atomic.Int64 // can be read
	proposed  atomic.Int64 // shown by /status
	halted    atomic.Bool

	mu    sync.Mutex  // held while the chain moves
	forks []int64     // the heights that the chain was rolled back to, in order
	times []time.Time // of the commits from the first height on

	quit     context.CancelFunc
	producer sync.WaitGroup
}

func newChain(o Options) *chain {
	c := &chain{id: o.ChainID, seed: o.Seed, interval: o.Interval, lead: max(0, o.StatusLead), first: o.StartHeight}
	size := state.Options{ChainID: o.ChainID, Seed: o.Seed, Validators: o.Validators, Delegators: o.Delegators, Turnover: o.Turnover}
	if o.Dialect == Cosmos {
		c.cosmos = cosmos.NewChain(size)
		c.staking = &c.cosmos.Chain
	} else {
		c.story = story.NewChain(size)
		c.staking = &c.story.Chain
	}
	c.committed.Store(o.StartHeight)
	c.proposed.Store(o.StartHeight)
	c.times = []time.Time{time.Now()}
	return c
}

// hash is some digest that stands for a part of the chain at a height.
func (c *chain) hash(what string, h int64) []byte {
	d := state.Digest(c.seed, c.id+what, h+c.forksBelow(h)<<40)
	return d[:]
}

// start begins to make blocks.
func (c *chain) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.quit = cancel
	if c.interval > 0 {
		c.producer.Go(func() { c.produce(ctx) })
	}
}

// stop ends it, if it was begun, and waits.
func (c *chain) stop() {
	if c.quit != nil {
		c.quit()
	}
	c.producer.Wait()
}

func (c *chain) produce(ctx context.Context) {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.halted.Load() {
			continue
		}
		c.propose()
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.lead):
		}
		c.commit()
	}
}

// propose shows the next block in /status, which a real node does before the
// block can be read.
func (c *chain) propose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proposed.Store(c.committed.Load() + 1)
}

func (c *chain) commit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	height := c.committed.Load() + 1
	c.times = append(c.times, time.Now())
	c.committed.Store(height)
	c.proposed.Store(max(c.proposed.Load(), height))
	c.signal()
}

// setBack takes the newest n blocks away. The blocks that come in their place have
// another content.
func (c *chain) setBack(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	height := max(1, c.committed.Load()-n)
	c.times = c.times[:max(1, int64(len(c.times))-n)]
	c.committed.Store(height)
	c.proposed.Store(height)
	c.forks = append(c.forks, height)
	c.signal()
}

// forksBelow is how often the chain was rolled back to a height below h.
func (c *chain) forksBelow(h int64) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.forks {
		if at < h {
			n++
		}
	}
	return n
}

func (c *chain) height() int64 { return c.committed.Load() }

// pace is the time between blocks, also where they are made by hand.
func (c *chain) pace() time.Duration { return max(c.interval, time.Second) }

// blockTime is the time in the header of block h. As on a real chain it is
// when the block before was agreed on: about one interval before the commit.
func (c *chain) blockTime(h int64) time.Time { return c.committedAt(h).Add(-c.pace()).UTC() }

// committedAt is when block h was made, or would have been at the pace.
func (c *chain) committedAt(h int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.height() - int64(len(c.times)) + 1 // the lowest height with a time
	known := max(0, min(h-from, int64(len(c.times))-1))
	return c.times[known].Add(time.Duration(h-from-known) * c.pace())
}
