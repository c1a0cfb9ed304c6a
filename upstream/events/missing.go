package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// readMissing reads the next block if the node did not announce it in time or skipped it. It returns when to check again.
func (s *sequencer) readMissing(ctx context.Context, t tip.Tip, next int64) time.Duration {
	if next == 0 || t.Height < next || s.reading {
		return maxHold
	}
	if t.Height == next && s.listener.current.Load() != nil && !s.nodeSkipped(next) {
		if left := grace - time.Since(t.Since); left > 0 {
			return left
		}
	}
	if left := time.Until(s.retryAt); left > 0 {
		return left
	}
	s.reading = true
	silent := ""
	if on := s.listener.current.Load(); on != nil {
		silent = on.node
	}
	s.workers.Go(func() {
		r := s.read(ctx, next, silent)
		r.epoch = t.Epoch
		s.reads <- r
	})
	return maxHold
}

// nodeSkipped reports whether the node announced a later block.
func (s *sequencer) nodeSkipped(height int64) bool {
	for _, a := range s.pending {
		if a.block != nil && a.block.Height > height && a.from == s.listener.current.Load() {
			return true
		}
	}
	return false
}

// handleRead announces a block that was read, schedules another read, or skips the block. It ignores a block that is not
// the next one any more.
func (s *sequencer) handleRead(r readResult) {
	t := s.o.Heights.Tip()
	next := s.nextAt(t)
	isUnavailable := errors.Is(r.err, errUnavailable)
	switch {
	case r.height != next || r.epoch != t.Epoch:
		return // the node announced it meanwhile, or it was rolled back
	case errors.Is(r.err, errNoNode):
		s.failing = failing{}
		s.retry()
	case r.err != nil && (r.unfit || !isUnavailable) && s.waits(next, t.Epoch, isUnavailable):
		s.retry()
	case r.err != nil:
		s.o.Logger.Error("lost the events of a block that no node can provide", "height", next, "error", r.err)
		s.metrics.blocks.WithLabelValues("lost").Inc()
		s.markAnnounced(next, "")
	case !s.follows(r.block) && s.disputes < maxDisputes:
		s.disputes++
		s.retry()
	default:
		if next == t.Height && s.listener.current.Load() != nil {
			s.unannounced++
		}
		s.announce(r.block, r.epoch, "read")
		if on := s.listener.current.Load(); on != nil && s.unannounced >= maxUnannounced {
			s.unannounced = 0
			s.listener.drop(on, errSilent)
		}
	}
}

// failing is the time since when fit nodes have not provided a block, or several blocks that are unavailable.
type failing struct {
	height, epoch int64
	unavailable   bool
	since         time.Time
}

// waits reports whether the feed still waits for a block that no fit node has provided. Later blocks wait with it.
func (f *Feed) waits(height, epoch int64, unavailable bool) bool {
	before := f.failing
	f.failing = failing{height, epoch, unavailable, before.since}
	if before.since.IsZero() || before.epoch != epoch || before.height != height && !(before.unavailable && unavailable) {
		f.failing.since = time.Now()
	}
	return time.Since(f.failing.since) < maxFailing
}

func (s *sequencer) retry() {
	s.retryAt = time.Now().Add(s.delay)
	s.delay = min(2*s.delay, maxDelay)
}

// readTimeout limits the read of a block and its results.
const readTimeout = 10 * time.Second

// Errors of reading a block. Other failures are retried for maxFailing.
var (
	errUnavailable = errors.New("no node has the block") // every fit node has pruned it, or sends it in a form whose decoding panics
	errNoNode      = errors.New("no node is available")
	errOther       = errors.New("node returned another block")
)

// A readResult is the result of reading a block.
type readResult struct {
	height int64
	epoch  int64 // of the tip when the read began
	block  *Block
	unfit  bool // a node was not read because it is unfit
	err    error
}

// read reads a block from the first fit node that provides it. The node that has not announced it, which may hang, comes last.
func (f *Feed) read(ctx context.Context, height int64, silent string) readResult {
	r := readResult{height: height, err: errNoNode}
	tried, unavailable := 0, 0
	nodes := slices.Clone(f.o.Nodes())
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == silent }); i >= 0 {
		last := nodes[i]
		nodes = append(slices.Delete(nodes, i, i+1), last)
	}
	for _, n := range nodes {
		if !n.Fit() {
			r.unfit = true
			continue
		}
		r.err = upstream.Guard(f.o.Logger, "block", func() (err error) {
			r.block, err = f.readFrom(ctx, n, height)
			return err
		})
		if r.err == nil && r.block.Height == height && r.block.ChainID == f.o.Heights.ChainID() {
			return r
		}
		refusal, refused := errors.AsType[*comet.Refusal](r.err)
		if tried++; refused && pruned.MatchString(refusal.Data) || errors.Is(r.err, upstream.ErrPanicked) {
			unavailable++
		}
		r.err = cmp.Or(r.err, errOther)
	}
	if tried > 0 && tried == unavailable {
		r.err = fmt.Errorf("%w: %w", errUnavailable, r.err)
	}
	return r
}

// pruned matches the texts of CometBFT for a block, or for results, that the node does not keep.
var pruned = regexp.MustCompile(`lowest height is|^node is not persisting (?:abci|finalize block) responses`)

func (f *Feed) readFrom(ctx context.Context, n Node, height int64) (*Block, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
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
	return blockFromResults(answers[0], answers[1])
}
