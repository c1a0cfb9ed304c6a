package events

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// fill asks for the next block where it is not announced in time, or was passed over.
func (s *sequencer) fill(ctx context.Context, t tip.Tip, next int64) time.Duration {
	now := time.Now()
	switch {
	case next == 0 || t.Height < next || s.reading:
		return maxHold
	case s.late != next:
		s.late, s.since = next, now
	}
	if t.Height == next && s.ear.on.Load() != nil && !s.passedOver(next) {
		if left := grace - now.Sub(s.since); left > 0 {
			return left
		}
	}
	if left := s.retryAt.Sub(now); left > 0 {
		return left
	}
	s.reading = true
	s.workers.Go(func() { s.reads <- s.read(ctx, next) })
	return maxHold
}

// passedOver says whether the node went on to a later block.
func (s *sequencer) passedOver(height int64) bool {
	for _, a := range s.pending {
		if a.block != nil && a.block.Height > height && a.from == s.ear.on.Load() {
			return true
		}
	}
	return false
}

// accept announces a block that was read.
func (s *sequencer) accept(ctx context.Context, r read) {
	next := s.upcoming(s.o.Heights.Tip())
	switch {
	case r.height != next:
		return // it came meanwhile
	case errors.Is(r.err, errGone):
		s.o.Logger.Error("lost the events of a block, no node has it in a readable form", "height", next)
		s.metrics.blocks.WithLabelValues("lost").Inc()
		s.passed(next, "")
	case r.err != nil:
		s.retry()
	case !s.follows(r.block) && s.disputes < maxDisputes:
		s.disputes++
		s.retry()
	default:
		if s.delay, s.disputes = firstDelay, 0; next == s.o.Heights.Tip().Height && s.ear.on.Load() != nil {
			s.silence++
		}
		s.announce(ctx, r.block, "read")
		if on := s.ear.on.Load(); on != nil && s.silence >= maxSilence {
			s.silence = 0
			s.ear.drop(on, errSilent)
		}
	}
}

func (s *sequencer) retry() {
	s.retryAt = time.Now().Add(s.delay)
	s.delay = min(2*s.delay, maxDelay)
}

// maxRead is how long a block and its results may take.
const maxRead = 10 * time.Second

// errGone is the error of a block that no node has in a form that can be read.
var errGone = errors.New("the block is no longer there")

// A read is a block that was asked for.
type read struct {
	height int64
	block  *Block
	err    error
}

// read asks the nodes for a block, one after the other.
func (f *Feed) read(ctx context.Context, height int64) read {
	r := read{height: height, err: errors.New("no node can be asked")}
	asked, gone := 0, 0
	for _, n := range f.o.Nodes() {
		if !n.Fit() {
			continue
		}
		r.err = upstream.Guard(f.o.Logger, "block", func() (err error) {
			r.block, err = f.readFrom(ctx, n, height)
			return err
		})
		if r.err == nil && r.block.Height == height && r.block.ChainID == f.o.Heights.ChainID() {
			return r
		}
		if asked++; isGone(r.err) || errors.Is(r.err, upstream.ErrPanicked) {
			gone++
		}
		r.err = cmp.Or(r.err, errStranger)
	}
	if asked > 0 && asked == gone {
		r.err = errGone
	}
	return r
}

// isGone says whether a node refuses a block because it was pruned.
func isGone(err error) bool {
	var refusal *comet.Refusal
	return errors.As(err, &refusal) && strings.Contains(refusal.Data, "lowest height is")
}

func (f *Feed) readFrom(ctx context.Context, n Node, height int64) (*Block, error) {
	ctx, cancel := context.WithTimeout(ctx, maxRead)
	defer cancel()
	both, ctx := errgroup.WithContext(ctx)
	params := map[string]string{"height": strconv.FormatInt(height, 10)}
	var answers [2][]byte
	for i, method := range []string{"block", "block_results"} {
		both.Go(func() error {
			return upstream.Guard(f.o.Logger, "block", func() (err error) {
				answers[i], err = n.Call(ctx, method, params, MaxMessage)
				return err
			})
		})
	}
	if err := both.Wait(); err != nil {
		return nil, err
	}
	return fromResults(answers[0], answers[1])
}
