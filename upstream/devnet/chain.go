package devnet

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/devnet/story"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// A chain makes blocks. The dialect defines the state that the REST API shows.
type chain struct {
	id       string
	seed     uint64
	interval time.Duration // between blocks; negative: only advance makes them
	lead     time.Duration // between propose and commit
	first    int64         // the height at the start
	evmStart int64         // the block of the execution client that it carries
	cosmos   *cosmos.Chain // nil in the dialect of Story
	story    *story.Chain  // nil in the other
	staking  *state.Chain  // the state in either dialect

	notice                 // signaled at each block
	committed atomic.Int64 // newest height that can be read
	proposed  atomic.Int64 // newest height in /status
	halted    atomic.Bool

	mu    sync.Mutex  // held while the chain moves
	forks []int64     // the heights that the chain was rolled back to, in order
	times []time.Time // times of the commits, the newest last

	quit     context.CancelFunc
	producer sync.WaitGroup
}

func newChain(o Options) *chain {
	c := &chain{id: o.ChainID, seed: o.Seed, interval: o.Interval, lead: max(0, o.StatusLead), first: o.StartHeight}
	size := state.Options{ChainID: o.ChainID, Seed: o.Seed, Validators: o.Validators, Delegators: o.Delegators}
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

// hash returns a digest for a part of the chain at a height.
func (c *chain) hash(what string, h int64) []byte {
	d := state.Digest(c.seed, c.id+what, h+c.forksBelow(h)<<40)
	return d[:]
}

// start starts making blocks.
func (c *chain) start() {
	var ctx context.Context
	ctx, c.quit = context.WithCancel(context.Background())
	if c.interval > 0 {
		c.producer.Go(func() { c.produce(ctx) })
	}
}

// stop stops the chain, if it was started, and waits.
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
		c.mu.Lock()
		c.proposed.Store(c.committed.Load() + 1) // a real node shows a block in /status before it can be read
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.lead):
		}
		c.commit()
	}
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

// rollBack removes the newest n blocks. The blocks that replace them differ.
func (c *chain) rollBack(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	height := max(1, c.committed.Load()-n)
	c.times = c.times[:max(1, int64(len(c.times))-n)]
	c.committed.Store(height)
	c.proposed.Store(height)
	c.forks = append(c.forks, height)
	c.signal()
}

// forksBelow returns how often the chain was rolled back to a height below h.
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

// pace returns the time between blocks, or one second if blocks are made by Advance.
func (c *chain) pace() time.Duration { return max(c.interval, time.Second) }

// blockTime returns the time in the header of block h. As on a real chain, it is when the previous block was agreed on:
// about one interval before the commit.
func (c *chain) blockTime(h int64) time.Time { return c.committedAt(h).Add(-c.pace()).UTC() }

// committedAt returns when block h was committed, or is expected to be.
func (c *chain) committedAt(h int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.height() - int64(len(c.times)) + 1 // the lowest height with a time
	known := max(0, min(h-from, int64(len(c.times))-1))
	return c.times[known].Add(time.Duration(h-from-known) * c.pace())
}

// cometLines are named JSON texts of CometBFT. ${name} stands for a value or for another text.
//
//go:embed comet.txt
var cometLines string

var cometTexts = func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(cometLines) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = text
	}
	return all
}()

// render returns a text with the values of block h; own takes precedence over them.
func (c *chain) render(text string, h int64, own map[string]string) json.RawMessage {
	return json.RawMessage(os.Expand(cometTexts[text], func(name string) string {
		value, given := own[name]
		_, nested := cometTexts[name]
		switch {
		case given:
			return value
		case nested:
			return string(c.render(name, h, own))
		}
		return c.value(name, h)
	}))
}

// value returns the value of a name in all texts about block h.
func (c *chain) value(name string, h int64) string {
	switch name {
	case "chain":
		return c.id
	case "height":
		return fmt.Sprint(h)
	case "below":
		return fmt.Sprint(h - 1)
	case "next":
		return fmt.Sprint(h + 1)
	case "time":
		return c.blockTime(h).Format(time.RFC3339Nano)
	case "pub_key": // on Story, the popular validator's
		if c.cosmos != nil {
			return cometTexts["cosmos_pub_key"]
		}
		return cometTexts["story_pub_key"]
	case "last_block_id":
		return string(c.render("block_id", h-1, nil))
	}
	var texts []string
	switch what, form, hash := strings.Cut(name, "_hash"); {
	case !hash: // a list of transactions or results
		for _, t := range c.transactions(h) {
			texts = append(texts, map[string]string{"txs": `"` + state.Base64(t.Raw) + `"`, "results": t.Result}[name])
		}
		return strings.Join(texts, ",")
	case form == "_before":
		return fmt.Sprintf("%X", c.hash(what, h-1))
	case form == "_base64":
		return state.Base64(c.hash(what, h))
	default:
		return fmt.Sprintf("%X", c.hash(what, h))
	}
}

// payload returns the only transaction of a block on Story. It carries a block of the execution client, as
// MsgExecutionPayload does, but only that block's hash and number.
func (c *chain) payload(h int64) []byte {
	payload := protofield.Append(nil, 1, c.hash("transaction", h), 7, max(0, c.evmStart+h-c.first))
	message := protofield.Append(nil, 1, "story1v9nlyfvy3r3l2nrhxmhuxwxk2e2yqpfhnzpcvy", 4, payload)
	wrapped := protofield.Append(nil, 1, "/story.evmengine.v1.types.MsgExecutionPayload", 2, message)
	return protofield.Append(nil, 1, protofield.Append(nil, 1, wrapped))
}
