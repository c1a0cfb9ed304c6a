package heights

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

const (
	maxPollInterval = 2 * time.Second
	recheck         = 4 // every fourth poll reads the known height again
)

// ImpossibleHeight is above every chain's tip.
const ImpossibleHeight = int64(1) << 62

var errNoHeights = errors.New("REST server answers at any height")

// errUnreadable is the error of a server that names a newest height and does not answer there.
var errUnreadable = errors.New("newest height that the REST server names cannot be read")

// A restFollower finds a node's newest block through the REST server, which refuses reads above it. It
// polls while isNeeded returns true.
type restFollower struct {
	*heightSource
	known   int64 // newest height that was read
	polls   int   // those with a known height, since CometBFT last provided heights
	claimed bool  // it has made claims since then
	checked bool  // the node serves the chain; false after a failure, because the node may have been replaced
}

// poll polls once if needed, and returns the time until the next poll.
func (f *restFollower) poll(ctx context.Context) time.Duration {
	defer f.polled.take()()
	if f.node.Comet == nil && !f.checked {
		reading, cancel := context.WithTimeout(ctx, proofTimeout)
		id, err := f.node.Reader.ChainID(reading)
		cancel()
		f.checked = err == nil && (id == "" || f.chain.admit(f.node, id)) // without an id, until a failure
	}
	if v := f.node.State(); !f.isNeeded(v) {
		if f.claimed { // CometBFT provides heights again
			f.chain.tip.Retire(f.source)
		}
		f.claimed, f.known, f.polls, f.silence = false, v.Height, 0, time.Time{}
	} else if err := f.check(ctx); errors.Is(err, errNoHeights) {
		return maxSilence
	} else if err != nil {
		f.checked = false
		return maxPollInterval
	}
	return min(f.pollInterval()/2, maxPollInterval)
}

// isNeeded reports whether the REST server has to replace CometBFT as the source of heights.
func (f *restFollower) isNeeded(v State) bool {
	return !v.Unseen && !v.Refused && (f.node.Comet == nil || v.CometDown || v.Distrusted || v.Late)
}

// check claims the newest height.
func (f *restFollower) check(ctx context.Context) error {
	height, err := f.newest(ctx)
	if err != nil || height == 0 {
		return err
	}
	// newest reads at the height unless the node reports it, and again only at some polls.
	read := !f.node.ReportsHeight() && (height != f.known || f.polls%recheck == 1)
	claim := tip.Claim{Height: height, Proved: read, CatchingUp: f.node.State().CatchingUp}
	if height > f.known && f.known > 0 {
		claim.Time = time.Now() // approximately
	}
	f.known, f.claimed = height, true
	f.claimHashed(ctx, f.node.Reader.BlockHash, claim)
	return nil
}

// newest returns the newest height that can be read, or 0 before the first block. It regularly reads the known
// height again, because the chain may be rolled back.
func (f *restFollower) newest(ctx context.Context) (int64, error) {
	if f.node.ReportsHeight() {
		a, err := f.node.read(ctx, f.chain, 0)
		if err != nil {
			return 0, err
		}
		return a.Height, nil
	}
	if f.known == 0 {
		return f.findNewest(ctx)
	}
	f.polls++
	if f.polls%recheck == 1 {
		if has, err := f.node.has(ctx, f.chain, f.known); err != nil {
			return 0, err
		} else if !has {
			return f.findNewest(ctx)
		}
	}
	has, err := f.node.has(ctx, f.chain, f.known+1)
	if has {
		return f.searchAbove(ctx, f.known+1)
	}
	return f.known, err
}

// findNewest finds the newest height when no readable height is known. If the first block is pruned, its refusal names the
// newest height, which must be readable.
func (f *restFollower) findNewest(ctx context.Context) (int64, error) {
	has, err := f.node.has(ctx, f.chain, ImpossibleHeight)
	if has || err != nil {
		return 0, cmp.Or(err, errNoHeights)
	}
	a, err := f.node.read(ctx, f.chain, 1)
	switch {
	case err != nil:
		return 0, err
	case a.Outcome == Future:
		return 0, nil
	}
	if a.Latest > 1 {
		if named, err := f.node.read(ctx, f.chain, a.Latest); err != nil || named.Outcome != Answered {
			return 0, cmp.Or(err, errUnreadable)
		}
	}
	return f.searchAbove(ctx, max(1, a.Latest))
}

// searchAbove finds the newest height at or above one that can be read, in steps that double and then halve.
func (f *restFollower) searchAbove(ctx context.Context, low int64) (int64, error) {
	grows := true
	for step := int64(1); step > 0; {
		has, err := f.node.has(ctx, f.chain, low+step)
		if err != nil {
			return 0, err
		}
		if has {
			low += step
		}
		if grows = grows && has; grows {
			step *= 2
		} else {
			step /= 2
		}
	}
	return low, nil
}

// rareAfter is the time since the last block after which the next one is read less often.
const rareAfter = 10 * time.Second

// watchLate reads the next block when it is half an interval late, then once per interval, and later every ten
// seconds. If the block can be read, the REST server becomes the source of the node's heights.
func (c *Chain) watchLate(ctx context.Context) {
	var height int64
	for reads := 0; ; {
		moved, now := c.moved.next(), c.Tip()
		if now.Height != height {
			height, reads = now.Height, 0
		}
		var due <-chan time.Time
		if now.Known && !now.CatchingUp {
			due = time.After(time.Until(now.Since.Add(nextRead(now.Interval, reads))))
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
			continue
		case <-due:
		}
		c.guard(func() { c.readNext(ctx, height+1, reads) })
		reads++
	}
}

// nextRead returns the time between the last block and a read of the next one, after a number of reads.
func nextRead(interval time.Duration, reads int) time.Duration {
	late := interval + interval/2
	for range reads {
		if late < rareAfter {
			late += interval
		} else {
			late += max(interval, rareAfter)
		}
	}
	return late
}

// readNext reads the block after the tip from one of the nodes that have reached the tip, in turn.
func (c *Chain) readNext(ctx context.Context, height int64, turn int) {
	var candidates []*restFollower
	for _, m := range c.all() {
		f := m.rest
		v := f.node.State()
		if v.Height >= height-1 && !v.CatchingUp && !f.isNeeded(v) {
			candidates = append(candidates, f)
		}
	}
	if len(candidates) == 0 {
		return // the REST servers are already polled
	}
	f := candidates[turn%len(candidates)]
	if has, err := f.node.has(ctx, c, height); err != nil || !has {
		return
	}
	f.node.update(func(v *State) { v.Late = v.Height < height })
	f.startPoll()
}
