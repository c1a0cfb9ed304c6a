package stream

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/session"
)

// A client that asks for blocks is told frames, where the newest block is known: what is new at a block, why there is no
// answer at it, and then that the block is complete. It gets a frame as a whole, or a later
// one: each topic has its answers at two blocks, so that one can be told while the next one
// is read.

// A blockAnswer is an answer at a block.
type blockAnswer struct {
	*event
	height int64
}

// blockEvents are the frames that one client has been sent, and the one that it waits for.
type blockEvents struct {
	wanted  bool
	epoch   int64
	told    int64     // the last complete block
	awaited int64     // the newest, which not all topics have
	until   time.Time // when it is told nonetheless
	late    *time.Timer
	blocks  *subscription // wakes the client at blocks
	seen    []*topicState // by path, as the frame is picked of them
	picked  []blockAnswer // of the frame that is written, by path; held
}

// errLate says that an answer was not read at a block in time.
var errLate = &failure.Failure{Status: http.StatusGatewayTimeout, Public: "there is no answer at this block yet", Expected: true}

// keep takes over what was the answer before, while there are clients that are told frames.
func (n *topicState) keep(old *topicState, framed bool) {
	n.past = old.past
	switch {
	case !framed || old.epoch != n.epoch:
		n.past = blockAnswer{}
	case old.failure == nil && old.answer != nil && (n.failure != nil || old.height != n.height):
		n.past = blockAnswer{old.answer, old.height}
		old.answer.hold()
	}
	if n.past != old.past {
		old.past.release()
	}
}

// at is the answer at a block; nil for none.
func (s *subscription) at(n *topicState, height int64) blockAnswer {
	switch {
	case n.failure == nil && n.answer != nil && (n.height == height || s.subject.at > 0 || n.height == 0 || s.undated && n.height <= height):
		return blockAnswer{n.answer, n.height}
	case n.past.height == height || s.undated:
		return n.past
	}
	return blockAnswer{}
}

// editions are the blocks of the answers of a topic; 0 for none.
func (s *subscription) editions(n *topicState) (newest, past int64) {
	if n.failure == nil && n.answer != nil && s.subject.at == 0 && !s.undated {
		newest = n.height
	}
	return newest, n.past.height
}

// nextFrame picks the newest block that all topics have, or once it was awaited for as long
// as there is patience the newest block. It is 0 where there is no other than the last one.
// The answers are held until release.
func (cl *client) nextFrame(subs []subscription, now time.Time) (height int64) {
	f, tip := &cl.blockEvents, cl.h.o.Heights.Tip()
	if tip.Epoch != f.epoch { // the chain was set back
		f.epoch, f.told, f.awaited = tip.Epoch, 0, 0
	}
	f.seen = f.seen[:0]
	for i := range subs {
		f.seen = append(f.seen, subs[i].current(f.epoch))
	}
	if wait := cl.early(tip.Height); wait > 0 {
		f.late.Reset(wait)
		return 0
	}
	newest := tip.Height
	for i := range subs {
		at, past := subs[i].editions(f.seen[i])
		newest = max(newest, at)
		for _, candidate := range [...]int64{at, past, tip.Height} {
			if candidate > max(height, f.told) && f.complete(subs, candidate) {
				height = candidate
			}
		}
	}
	if height == 0 && newest > f.told {
		height = cl.await(newest, cache.Patience(cl.h.o.Patience, tip.Interval), now)
	}
	if height > 0 && !f.hold(subs, height) {
		cl.notify() // newer ones have just come
		return 0
	}
	return height
}

// await is the block once it was awaited for so long.
func (cl *client) await(newest int64, patience time.Duration, now time.Time) (height int64) {
	f := &cl.blockEvents
	if f.awaited < newest {
		if f.awaited <= f.told || now.Before(f.until) {
			f.until = now.Add(patience)
		}
		f.awaited = newest
	}
	if left := f.until.Sub(now); left > 0 {
		f.late.Reset(left)
		return 0
	}
	return newest
}

func (f *blockEvents) complete(subs []subscription, height int64) bool {
	for i := range subs {
		if subs[i].at(f.seen[i], height).event == nil {
			return false
		}
	}
	return true
}

// hold picks the answers at a block. It is not ok where one is being replaced.
func (f *blockEvents) hold(subs []subscription, height int64) (ok bool) {
	for i := range subs {
		e := subs[i].at(f.seen[i], height)
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

// writeFrame writes the next frame. A client that cannot pay for all of it gets the rest, or
// that of a later block, once it can.
func (cl *client) writeFrame(ctx context.Context) {
	subs := cl.answers()
	height := cl.nextFrame(subs, time.Now())
	defer cl.blockEvents.release()
	if height == 0 {
		return
	}
	wait := time.Duration(0)
	for i := range subs {
		if wait = cl.tellAt(ctx, &subs[i], cl.blockEvents.seen[i], cl.blockEvents.picked[i].event); wait > 0 {
			break
		}
	}
	cl.writeID()
	if wait == 0 {
		wait = cl.spendFor(ctx, cl.blockEvents.blocks)
	}
	if wait > 0 {
		cl.affordable.Reset(wait)
		return
	}
	cl.out.event(cl.blockEvents.block(height, cl.h.o.Heights), "")
	cl.blockEvents.told = height
	cl.notify() // another one may be complete
}

// tellAt writes what is new of a path at a block: the answer, nil for none. Where the client
// cannot pay, it is the time to wait.
func (cl *client) tellAt(ctx context.Context, s *subscription, n *topicState, e *event) (wait time.Duration) {
	if e == nil {
		return cl.tellFailure(ctx, s, cmp.Or(n.failure, failureEvent(errLate)))
	}
	if e.digest != s.answer || s.failure != 0 {
		if wait = cl.tellAnswer(ctx, s, e); wait > 0 {
			return wait
		}
	}
	s.failure = 0
	return 0
}

// current is the topic's news of an epoch; without content where it has none of that epoch yet.
func (s *subscription) current(epoch int64) *topicState {
	if n := s.state.Load(); n.epoch == epoch {
		return n
	}
	return &topicState{epoch: epoch}
}

// block is the event of a block, that of all clients where it is the newest.
func (f *blockEvents) block(height int64, h session.History) *event {
	if e := f.blocks.current(f.epoch).answer; e != nil && e.digest == digest(height) {
		return e
	}
	return blockEvent(height, h)
}
