package heights

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

const (
	longestPoll = 2 * time.Second // between two polls, however slow the chain
	recheck     = 4               // polls from one read of the known height to the next
	beyond      = int64(1) << 62  // a height that no chain has
)

var errNoHeights = errors.New("the REST server answers at any height")

// A restFollower finds a node's newest block by reading, where a read of the next is refused, while
// CometBFT is not there, does not answer, is not believed or says nothing of blocks.
type restFollower struct {
	*claimant
	known int64 // newest height that was read
	polls int   // since it began to stand in
	stood bool  // it has stood in
}

// run follows until ctx ends.
func (f *restFollower) run(ctx context.Context) {
	for {
		if v := f.node.Look(); !f.stands(v) {
			f.yield(v)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.sought:
		case <-time.After(f.guardedPoll(ctx)):
		}
	}
}

func (f *restFollower) guardedPoll(ctx context.Context) (next time.Duration) {
	next = longestPoll
	_ = f.guard(func() error {
		next = f.poll(ctx)
		return nil
	})
	return next
}

// yield steps back for CometBFT, which speaks again.
func (f *restFollower) yield(v State) {
	if f.stood {
		f.chain.tip.Retire(f.source)
	}
	f.stood, f.known, f.polls = false, v.Height, 0
}

// poll asks once, where that is called for, and says when to do so again.
func (f *restFollower) poll(ctx context.Context) time.Duration {
	defer f.round.begin()()
	if f.stands(f.node.Look()) {
		if err := f.check(ctx); errors.Is(err, errNoHeights) {
			return maxPatience
		} else if err != nil {
			return longestPoll
		}
	}
	return min(f.pollInterval()/2, longestPoll)
}

// stands says whether the REST server has to stand in for CometBFT.
func (f *restFollower) stands(v State) bool {
	return !v.Unseen && !v.Foreign() && (f.node.Comet == nil || v.CometDown || v.Aside || v.Late)
}

func (f *restFollower) check(ctx context.Context) error {
	height, err := f.newest(ctx)
	if err != nil || height == 0 {
		return err
	}
	read := height != f.known || f.polls%recheck == 1
	said := tip.Claim{Height: height, Proved: read, CatchingUp: f.node.Look().CatchingUp}
	if height > f.known && f.known > 0 {
		said.Time = time.Now() // about when it was made
	}
	f.known, f.stood = height, true
	f.claimHashed(ctx, f, said)
	return nil
}

// newest is the newest height that can be read, 0 before the first. The one that
// was known is read again at first, and from time to time: a chain may be set back.
func (f *restFollower) newest(ctx context.Context) (int64, error) {
	if f.node.Tells() {
		a, err := f.node.read(ctx, f.chain, 0)
		if err != nil {
			return 0, err
		}
		return a.Height, nil
	}
	if f.known == 0 {
		return f.first(ctx)
	}
	f.polls++
	if f.polls%recheck == 1 {
		if has, err := f.node.has(ctx, f.chain, f.known); err != nil {
			return 0, err
		} else if !has {
			return f.first(ctx)
		}
	}
	has, err := f.node.has(ctx, f.chain, f.known+1)
	if has {
		return f.climb(ctx, f.known+1)
	}
	return f.known, err
}

// first finds the newest height from nothing. A refusal of a pruned first block names it.
func (f *restFollower) first(ctx context.Context) (int64, error) {
	has, err := f.node.has(ctx, f.chain, beyond)
	if has || err != nil {
		return 0, cmp.Or(err, errNoHeights)
	}
	a, err := f.node.read(ctx, f.chain, 1)
	switch {
	case err != nil:
		return 0, err
	case a.Outcome == Future:
		return 0, nil
	default:
		return f.climb(ctx, max(1, a.Latest))
	}
}

// climb finds the newest height from one that can be read, in steps that double and then are halved.
func (f *restFollower) climb(ctx context.Context, low int64) (int64, error) {
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

// lateFor is how long a chain is late before its next block is looked for less often.
const lateFor = 10 * time.Second

// watchLate reads the next block when it is half an interval late, at each interval from then on,
// and every ten seconds in the end. Where it can be read, the REST server stands in.
func (c *Chain) watchLate(ctx context.Context) {
	var height int64
	for reads := 0; ; {
		moved, now := c.moved.next(), c.Tip()
		if now.Height != height {
			height, reads = now.Height, 0
		}
		var due <-chan time.Time
		if now.Known && !now.CatchingUp {
			due = time.After(time.Until(now.Since.Add(lateness(now.Interval, reads))))
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

// lateness is how long after the last block the next one is read, the so many'th time.
func lateness(interval time.Duration, reads int) time.Duration {
	late := interval + interval/2
	for range reads {
		if late < lateFor {
			late += interval
		} else {
			late += max(interval, lateFor)
		}
	}
	return late
}

// readNext asks one of the nodes that are as high as the tip, in turn, for the block
// after it. That a node does not have that yet is no failure.
func (c *Chain) readNext(ctx context.Context, height int64, turn int) {
	var able []*restFollower
	for _, m := range c.all() {
		f := m.rest
		v := f.node.Look()
		if v.Height >= height-1 && !v.CatchingUp && !f.stands(v) {
			able = append(able, f)
		}
	}
	if len(able) == 0 {
		return // the REST servers are polled already
	}
	f := able[turn%len(able)]
	if has, err := f.node.has(ctx, c, height); err != nil || !has {
		return
	}
	f.node.update(func(v *State) { v.Late = v.Height < height })
	f.seek()
}
