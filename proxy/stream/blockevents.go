package stream

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
)

// With stream.blocks=true, and while the tip is known, a client receives for each block the changed answers and the failures,
// and then one `block` event: together, a frame. Frames may be skipped, but at each block event, the last event of each path is an
// answer that is valid at that block, or a failure. Each topic keeps its answers at two blocks, so that one frame can be
// written while the answers of the next are read.

// blockAnswer is an answer at a block.
type blockAnswer struct {
	*event
	height int64
}

// blockEvents holds which frames a client has received and which one it waits for.
type blockEvents struct {
	wanted        bool
	epoch         int64
	sentHeight    int64         // height of the last complete frame
	awaitedHeight int64         // newest height, which some topics have no answer for yet
	deadline      time.Time     // when the frame of awaitedHeight is written without the missing answers
	lastDeadline  time.Time     // how far later blocks may move deadline
	blocks        *subscription // wakes the client at each block
	states        []*topicState // by path; the states from which picked was chosen
	picked        []blockAnswer // by path; the answers of the frame being written, held
}

// errNotReadInTime is sent instead of an answer that was not read in time.
var errNotReadInTime = &failure.Failure{Status: http.StatusGatewayTimeout, Public: "no answer at this block yet", Expected: true}

// retainPast stores the answer of the previous state as n.past while clients receive frames (framed).
func (n *topicState) retainPast(old *topicState, framed bool) {
	n.past = old.past
	switch {
	case !framed || old.epoch != n.epoch:
		n.past = blockAnswer{}
	case old.failure == nil && old.answer != nil && (n.failure != nil || old.height != n.height):
		n.past = blockAnswer{old.answer, old.height}
	}
	if n.past != old.past { // also equal after a failure that ended at the same height
		if n.past.event != nil {
			n.past.hold()
		}
		old.past.release()
	}
}

// answerAt returns the answer that state n holds at height; its event is nil if there is none.
func (s *subscription) answerAt(n *topicState, height int64) blockAnswer {
	switch {
	case n.failure == nil && n.answer != nil && (n.height == height || n.pinned > 0 || n.height == 0 && !n.withoutTip || s.topic.undated && n.height <= height):
		return blockAnswer{n.answer, n.height}
	case n.past.height == height || s.topic.undated:
		return n.past
	}
	return blockAnswer{}
}

// answerHeights returns the heights of the two answers that state n holds; 0 means none.
func (s *subscription) answerHeights(n *topicState) (newest, past int64) {
	if n.failure == nil && n.answer != nil && n.pinned == 0 && !s.topic.undated {
		newest = n.height
	}
	return newest, n.past.height
}

// nextFrame returns the newest height at which all topics have an answer. After [cache.Patience], or up to twice that time
// if blocks arrive meanwhile, it returns the newest height although answers are missing. It returns 0 if no frame is due.
// The picked answers are held until release.
func (cl *client) nextFrame(subs []subscription, now time.Time) (height int64) {
	f, tip := &cl.blockEvents, cl.h.o.Heights.Tip()
	if tip.Epoch != f.epoch { // the chain was rolled back
		f.epoch, f.sentHeight, f.awaitedHeight = tip.Epoch, 0, 0
	}
	f.states = f.states[:0]
	for i := range subs {
		f.states = append(f.states, subs[i].current(f.epoch))
	}
	if wait := cl.waitForSession(tip.Height); wait > 0 {
		cl.waitTimer.Reset(wait)
		return 0
	}
	newest := tip.Height
	for i := range subs {
		at, past := subs[i].answerHeights(f.states[i])
		newest = max(newest, at)
		for _, candidate := range [...]int64{at, past, tip.Height} {
			if candidate > max(height, f.sentHeight) && f.complete(subs, candidate, tip.Height) {
				height = candidate
			}
		}
	}
	if height == 0 && newest > f.sentHeight {
		height = cl.giveUpWaiting(newest, cache.Patience(cl.h.o.Patience, tip.Interval), now)
	}
	if height > 0 && !f.hold(subs, height) {
		cl.notify() // an answer was replaced meanwhile
		return 0
	}
	return height
}

// giveUpWaiting returns newest if the client has waited for its answers for [cache.Patience], and 0 before. Blocks that
// arrive meanwhile extend the wait to twice that time at most.
func (cl *client) giveUpWaiting(newest int64, patience time.Duration, now time.Time) (height int64) {
	f := &cl.blockEvents
	if f.awaitedHeight < newest {
		switch {
		case f.awaitedHeight <= f.sentHeight:
			f.deadline, f.lastDeadline = now.Add(patience), now.Add(2*patience)
		case now.Before(f.deadline):
			if f.deadline = now.Add(patience); f.deadline.After(f.lastDeadline) {
				f.deadline = f.lastDeadline
			}
		}
		f.awaitedHeight = newest
	}
	if left := f.deadline.Sub(now); left > 0 {
		cl.waitTimer.Reset(left)
		return 0
	}
	return newest
}

// complete reports whether all topics have an answer at height. If height is not above tip, its block event must exist, too.
func (f *blockEvents) complete(subs []subscription, height, tip int64) bool {
	if height <= tip && f.blocks.current(f.epoch).height < height {
		return false
	}
	for i := range subs {
		if subs[i].answerAt(f.states[i], height).event == nil {
			return false
		}
	}
	return true
}

// hold picks the answers at height. It returns false if one of them has been replaced and released.
func (f *blockEvents) hold(subs []subscription, height int64) (ok bool) {
	for i := range subs {
		e := subs[i].answerAt(f.states[i], height)
		if e.event != nil && !e.hold() {
			f.release()
			return false
		}
		f.picked = append(f.picked, e)
	}
	return true
}

func (f *blockEvents) release() {
	for _, e := range f.picked {
		e.release()
	}
	f.picked = f.picked[:0]
}

// writeFrame writes the next frame. A client whose limits do not allow all of it receives the rest, or a later
// frame, when they do.
func (cl *client) writeFrame(ctx context.Context) {
	f, subs := &cl.blockEvents, cl.answers()
	height := cl.nextFrame(subs, time.Now())
	defer f.release()
	if height == 0 {
		return
	}
	wait := time.Duration(0)
	for i := range subs {
		if wait = cl.writeAnswerAt(ctx, &subs[i], f.states[i], f.picked[i].event); wait > 0 {
			break
		}
	}
	cl.writeID()
	if wait == 0 {
		wait = cl.spendFor(ctx, f.blocks)
	}
	if wait > 0 {
		cl.waitTimer.Reset(wait)
		return
	}
	block := f.blocks.answerAt(f.blocks.current(f.epoch), height).event
	if block == nil { // all clients share it unless a later one has replaced it
		block = blockEvent(height, 0, cl.h.o.Heights)
	}
	cl.out.event(block, "")
	f.sentHeight = height
	cl.notify() // another frame may be complete
}

// writeAnswerAt writes e, the answer of a path at a block, if the client does not have it. For a nil e it writes a failure, once
// per frame. If the client's limits do not allow it, nothing is written and the time to wait is returned.
func (cl *client) writeAnswerAt(ctx context.Context, s *subscription, n *topicState, e *event) (wait time.Duration) {
	if e == nil {
		e, frame := cmp.Or(n.failure, failureEvent(errNotReadInTime)), cl.blockEvents.sentHeight
		if e.digest == s.failure && s.failedAfter == frame { // written before the limits interrupted this frame
			return 0
		}
		if wait = cl.writeFailure(ctx, s, e); wait == 0 {
			s.failedAfter = frame
		}
		return wait
	}
	if e.digest != s.answer || s.failure != 0 {
		if wait = cl.writeAnswer(ctx, s, e); wait > 0 {
			return wait
		}
	}
	s.failure = 0
	return 0
}

// current returns the topic's state if it belongs to epoch, and an empty state otherwise.
func (s *subscription) current(epoch int64) *topicState {
	if n := s.topic.state.Load(); n.epoch == epoch {
		return n
	}
	return &topicState{epoch: epoch}
}
