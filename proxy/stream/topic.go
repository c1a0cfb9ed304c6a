package stream

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// retryInterval is the time before a failed read, or one that no follower could be charged for, is tried again.
const retryInterval = time.Second

// topics holds one topic for each source that is followed.
type topics struct {
	heights heights
	log     *slog.Logger
	memory  *account.Part
	mu      sync.Mutex
	byKey   map[string]*topic
}

// topic follows a source for its subscribers and ends with the last of them.
type topic struct {
	source
	heights    heights
	state      atomic.Pointer[topicState]
	framed     atomic.Int32 // subscribers with block events
	pollsAhead atomic.Int32 // polls whose client has a later block than the answer; each read wakes them

	memory      *account.Hold               // of the topic without its answers
	subscribers map[*follower]*subscription // guarded by topics.mu
	payer       *follower                   // in whose client's share the memory counts; guarded by topics.mu
	cancel      context.CancelFunc
	done        chan struct{}
}

// A source is what a topic reads.
type source struct {
	key     string        // identifies the source
	fresh   time.Duration // between two reads while no tip is known
	undated bool          // its answers belong to no height
	indexed bool          // its answers are from the nodes' index
	free    bool          // reads count against no client's limits
	// read returns the current answer on behalf of a client: with newest, the one at the newest block. before is the last one, nil
	// if unknown. With an error, the answer may be before, nil, or an older one.
	read func(ctx context.Context, before *event, client string, newest bool) (topicState, error)
}

// feedSource returns the source of a feed's answers.
func feedSource(f web.Feed) source {
	return source{key: "answer " + f.Key, fresh: f.Fresh, undated: f.Undated, indexed: f.Indexed, read: func(ctx context.Context, before *event, client string, newest bool) (topicState, error) {
		res, pinned, err := f.Reader.Read(ctx, client, newest)
		now := topicState{answer: before, pinned: pinned}
		if err != nil {
			return now, err
		}
		e, tag := res.Entry, strings.Trim(res.Entry.ETag, `"`)
		if now.height = e.Height; f.Indexed && res.Err == nil {
			now.item = e
		}
		if before == nil || before.tag != tag {
			now.answer = &event{height: strconv.FormatInt(e.Height, 10), tag: tag, digest: digestOf(f.ComparedBody(e.Body)), data: oneLine(e.Body)}
		}
		return now, res.Err
	}}
}

// blockSource returns the source of the chain's blocks, which has no answer while the tip is unknown. It reads a block's
// execution block once for all clients.
func blockSource(heights heights) source {
	return source{key: "blocks", free: true, read: func(ctx context.Context, _ *event, _ string, _ bool) (topicState, error) {
		ctx, cancel := context.WithTimeout(ctx, retryInterval)
		defer cancel()
		tip := heights.Tip()
		if !tip.Known {
			return topicState{}, nil
		}
		_, executed, _ := heights.Executed(ctx, "", tip.Height, math.MaxInt64) // 0 if the chain has none or no node says it in time
		return topicState{answer: blockEvent(tip.Height, executed, heights), height: tip.Height}, nil
	}}
}

// topicState is the newest answer of a topic, or why there is none.
type topicState struct {
	epoch  int64        // epoch in which it was read; a rollback makes older states invalid
	answer *event       // nil if there is none yet
	item   *cache.Entry // the answer of an indexed source; nil if the last read failed
	height int64        // newest block at which the answer is known to be valid
	pinned int64        // block that the answer is pinned to; 0 if later blocks may change it

	withoutTip bool // it was read while no tip was known, so a height of 0 does not mean that it is valid at each block

	past    blockAnswer // answer at an earlier block, for frames; held
	failure *event      // error of the last read; nil if it succeeded
}

// subscribe adds a follower to the topic of a source. It fails with account.ErrShare or account.ErrFull if there is no memory
// for a new topic.
func (ts *topics) subscribe(s source, f *follower, sub *subscription) (*topic, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byKey[s.key]
	if t == nil {
		memory := ts.open(f)
		if err := memory.Start(s.weight()); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		t = &topic{source: s, heights: ts.heights, memory: memory, payer: f, subscribers: map[*follower]*subscription{}, cancel: cancel, done: make(chan struct{})}
		t.state.Store(&topicState{})
		ts.byKey[s.key] = t
		go func() {
			defer close(t.done)
			ts.follow(ctx, t)
		}()
	}
	t.subscribers[f] = sub
	return t, nil
}

// unsubscribe removes a follower. Removing the last one ends the topic and waits for its goroutine.
func (ts *topics) unsubscribe(t *topic, f *follower) {
	ts.mu.Lock()
	delete(t.subscribers, f)
	last := len(t.subscribers) == 0 && ts.byKey[t.key] == t
	if last {
		delete(ts.byKey, t.key)
	} else if t.payer == f {
		for t.payer = range t.subscribers {
			break
		}
		t.charge()
	}
	ts.mu.Unlock()
	if last {
		t.cancel()
		<-t.done
		n := t.state.Load()
		n.answer.release()
		n.past.release()
		t.memory.Close()
	}
}

// wakeBatch is the number of clients woken at once. Waking thousands at once would delay requests until all were written to.
const wakeBatch = 32

// publish wakes the subscribers of a topic in batches.
func (ts *topics) publish(t *topic) {
	ts.mu.Lock()
	all := slices.Collect(maps.Keys(t.subscribers))
	ts.mu.Unlock()
	for some := range slices.Chunk(all, wakeBatch) {
		for _, c := range some {
			c.notify()
		}
		runtime.Gosched()
	}
}

// notifyAll wakes the subscribers of all topics.
func (ts *topics) notifyAll() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byKey {
		for c := range t.subscribers {
			c.notify()
		}
	}
}

// follow reads a topic's source at every block for which a subscriber can be charged, and publishes changes.
func (ts *topics) follow(ctx context.Context, t *topic) {
	for ctx.Err() == nil {
		if t.indexed && t.awaitIndex(ctx) != nil {
			return
		}
		client, ok := ts.spendForTopic(ctx, t)
		tip := t.heights.Tip()
		if !ok {
			t.wait(ctx, tip, tip.Height, true)
			continue
		}
		n := ts.refresh(ctx, t, client, tip)
		if n.failure == nil && n.pinned > 0 && n.height == n.pinned {
			t.await(ctx, func(now node.Tip) bool { return now.Epoch != tip.Epoch })
		} else {
			t.wait(ctx, tip, max(tip.Height, n.height), n.failure != nil)
		}
	}
}

// refresh reads a topic's source on behalf of a client at a tip, publishes a change and returns the new state. It
// keeps nothing from another epoch.
func (ts *topics) refresh(ctx context.Context, t *topic, client string, tip node.Tip) *topicState {
	old, next := t.state.Load(), &topicState{}
	framed := t.framed.Load() > 0
	before := *old
	if before.epoch != tip.Epoch {
		before = topicState{}
	}
	err := upstream.Guard(ts.log, "stream", func() (err error) {
		*next, err = t.read(ctx, before.answer, client, framed)
		return err
	})
	if next.answer != nil && next.answer != before.answer && !t.free {
		replaced := old.answer
		if framed {
			replaced = old.past.event
		}
		if full := ts.reserve(t, next.answer, replaced); full != nil {
			next.answer, err = before.answer, full
		}
	}
	if next.epoch, next.withoutTip = tip.Epoch, !tip.Known; err != nil {
		next.height, next.failure = before.height, failureEvent(err)
	}
	next.retainPast(old, framed)
	t.state.Store(next) // even if the compared part is unchanged: the rest, such as the next page key, may differ
	if next.answer != old.answer {
		old.answer.release()
		ts.settle(t)
	}
	same := next.answer.equals(old.answer) && next.failure.equals(old.failure)
	if ctx.Err() == nil && (!same || framed || t.pollsAhead.Load() > 0) {
		ts.publish(t)
	}
	return next
}

// spendForTopic charges one of a topic's subscribers for the next read and its event, and returns the client's
// name. It returns false if no subscriber can be charged.
func (ts *topics) spendForTopic(ctx context.Context, t *topic) (name string, ok bool) {
	if t.free {
		return "", true
	}
	for range maxCharges {
		c, sub := ts.affordable(t)
		if c == nil {
			return "", false
		}
		if payer := c.limiter.Load(); c.spend(ctx, payer) == 0 {
			sub.paid.Store(true)
			return payer.Name, true
		}
	}
	return "", false
}

// maxCharges is the number of subscribers to try: another request or replica may use up a limit that seemed to allow it.
const maxCharges = 3

// affordable returns a subscriber whose limits seem to allow a request; nil for none.
func (ts *topics) affordable(t *topic) (*follower, *subscription) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for c, sub := range t.subscribers {
		if c.reserved.Load() || c.limiter.Load().Allows() {
			return c, sub
		}
	}
	return nil, nil
}

// wait returns when the answer may have changed: at the first block after height, when the tip becomes known, after a rollback, or
// when patience ends. Patience is four block intervals. Without a tip, it is the time for which the answer is fresh, and after a failure
// retryInterval. For an item that is missing, it ends at busyIndexDelay after the block.
func (t *topic) wait(ctx context.Context, since node.Tip, height int64, failed bool) {
	patience := max(4*since.Interval, retryInterval)
	switch {
	case failed:
		patience = retryInterval
	case !since.Known:
		patience = max(t.fresh, retryInterval)
	case t.state.Load().isMissing() && time.Since(since.Since) < busyIndexDelay:
		patience = time.Until(since.Since.Add(busyIndexDelay))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.await(ctx, func(now node.Tip) bool {
		return now.Epoch != since.Epoch || since.Known && now.Height > height || !since.Known && now.Known
	})
}

// await returns when done reports true for the tip, or ctx ends.
func (t *topic) await(ctx context.Context, done func(now node.Tip) bool) {
	for ctx.Err() == nil {
		moved := t.heights.Moved()
		if done(t.heights.Tip()) {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}
