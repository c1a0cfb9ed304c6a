package stream

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// retryInterval is the time between two tries to read an answer that failed, or that
// no follower could pay for.
const retryInterval = time.Second

// topics are the subjects that are followed, each once however many stream it.
type topics struct {
	heights heights
	log     *slog.Logger
	bodies  bodies
	mu      sync.Mutex
	byKey   map[string]*topic
}

// A topic follows a subject for its subscribers, and ends with the last of them.
type topic struct {
	subject
	heights  heights
	state    atomic.Pointer[topicState]
	framed   atomic.Int32 // subscribers that are told frames
	followed atomic.Int32 // subscribers that are woken at each read: what they have is of a later block

	subscribers map[*follower]*subscription // guarded by topics.mu
	waking      []*follower                 // the same as publish wakes them; nil since one came or left. Its elements do not change
	cancel      context.CancelFunc
	done        chan struct{}
}

// A subject is what a topic is about.
type subject struct {
	key     string        // subjects of one key are one
	at      int64         // the height at which it never changes; 0 for the newest
	fresh   time.Duration // between two reads where no tip is known
	undated bool          // its answers are not those of a state
	free    bool          // to be read: no follower is asked
	// read tells what it is now, and at which height, on behalf of a client; before is
	// what it was, nil for unknown. Beside an error, what it is now may be old or nil.
	// Another event than before holds its body for the caller.
	read func(ctx context.Context, before *event, client string) (now *event, height int64, err error)
}

// answersOf is the subject of a feed.
func (ts *topics) answersOf(f web.Feed) subject {
	return subject{key: "answer " + f.Key, at: f.Height, fresh: f.Fresh, undated: f.Undated, read: func(ctx context.Context, before *event, client string) (*event, int64, error) {
		res, err := f.Read(ctx, client)
		if err != nil {
			return before, 0, err
		}
		if before != nil && before.tag == tagOf(res.Entry) {
			return before, res.Entry.Height, res.Err
		}
		now, err := ts.answerEvent(res.Entry, f.ComparedBody(res.Entry.Body))
		if err != nil {
			return before, 0, err
		}
		return now, res.Entry.Height, res.Err
	}}
}

// blocksOf is the subject of the chain's blocks.
func blocksOf(heights heights) subject {
	return subject{key: "blocks", free: true, read: func(context.Context, *event, string) (*event, int64, error) {
		height := heights.Tip().Height
		return blockEvent(height, heights), height, nil
	}}
}

// topicState is the newest answer of a topic, or why there is none.
type topicState struct {
	epoch   int64       // in force when it was read: news of an earlier one is of a chain that was rolled back
	answer  *event      // nil: none yet
	height  int64       // the newest block at which the answer is known to hold
	past    blockAnswer // the answer at an earlier block, for frames; held
	failure *event      // why answer is not newer; nil: it is the newest
}

// subscribe adds a client to the topic of a subject. It is nil where there is no room
// for another topic.
func (ts *topics) subscribe(s subject, f *follower, sub *subscription) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byKey[s.key]
	if t == nil {
		if !ts.bodies.budget.Reserve(account.Events, s.weight()) {
			return nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		t = &topic{subject: s, heights: ts.heights, subscribers: map[*follower]*subscription{}, cancel: cancel, done: make(chan struct{})}
		t.state.Store(&topicState{})
		ts.byKey[s.key] = t
		go func() {
			defer close(t.done)
			ts.follow(ctx, t)
		}()
	}
	t.subscribers[f], t.waking = sub, nil
	return t
}

func (s *subject) weight() int64 { return topicWeight + 2*int64(len(s.key)) }

// unsubscribe takes a client off. With the last one the topic ends, and is
// waited for.
func (ts *topics) unsubscribe(t *topic, f *follower) {
	ts.mu.Lock()
	delete(t.subscribers, f)
	t.waking = nil
	last := len(t.subscribers) == 0 && ts.byKey[t.key] == t
	if last {
		delete(ts.byKey, t.key)
	}
	ts.mu.Unlock()
	if last {
		t.cancel()
		<-t.done
		n := t.state.Load()
		n.answer.release()
		n.past.release()
		ts.bodies.budget.Release(account.Events, t.weight())
	}
}

// batch is how many clients are woken at once. All at once would keep requests
// waiting that come meanwhile, until the last of thousands was written to.
const batch = 32

// publish wakes the subscribers of a topic, and lets others run in between.
func (ts *topics) publish(t *topic) {
	ts.mu.Lock()
	if t.waking == nil {
		t.waking = slices.Collect(maps.Keys(t.subscribers))
	}
	waking := t.waking
	ts.mu.Unlock()
	for some := range slices.Chunk(waking, batch) {
		for _, c := range some {
			c.notify()
		}
		runtime.Gosched()
	}
}

// notifyAll notifies the subscribers of all topics.
func (ts *topics) notifyAll() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byKey {
		for c := range t.subscribers {
			c.notify()
		}
	}
}

// follow reads a topic's subject at every block that one of its subscribers pays for, and
// publishes what is new.
func (ts *topics) follow(ctx context.Context, t *topic) {
	for ctx.Err() == nil {
		client, ok := ts.spendForTopic(ctx, t)
		tip := t.heights.Tip()
		if !ok {
			t.wait(ctx, tip, tip.Height, true)
			continue
		}
		height, err := ts.refresh(ctx, t, client, tip.Epoch)
		if err == nil && t.at > 0 && height == t.at {
			t.awaitRollback(ctx, tip.Epoch)
		} else {
			t.wait(ctx, tip, max(tip.Height, height), err != nil)
		}
	}
}

// refresh reads a topic's subject on behalf of a client while an epoch is in force, and publishes
// what is new. Of another epoch it keeps nothing.
func (ts *topics) refresh(ctx context.Context, t *topic, client string, epoch int64) (height int64, err error) {
	old, next := t.state.Load(), &topicState{epoch: epoch}
	framed := t.framed.Load() > 0
	if framed {
		ctx = web.AtEachBlock(ctx)
	}
	before := *old
	if before.epoch != epoch {
		before = topicState{}
	}
	err = upstream.Guard(ts.log, "stream", func() (err error) {
		next.answer, height, err = t.read(ctx, before.answer, client)
		return err
	})
	next.height = height
	if err != nil {
		next.height, next.failure = before.height, failureEvent(err)
	}
	next.keep(old, framed)
	t.state.Store(next) // if only for the next page key, which new clients get
	if next.answer != old.answer {
		old.answer.release()
	}
	same := next.answer.saysAs(old.answer) && next.failure.saysAs(old.failure)
	if ctx.Err() == nil && (!same || framed || t.followed.Load() > 0) {
		ts.publish(t)
	}
	return height, err
}

// spendForTopic spends a request from the limits of one of a topic's subscribers. The next read, and the event that
// comes of it, are on its behalf. It returns false if no subscriber can pay.
func (ts *topics) spendForTopic(ctx context.Context, t *topic) (name string, ok bool) {
	for range maxCharges {
		c, sub := ts.affordable(t)
		switch {
		case c == nil:
			return "", false
		case t.free:
			return "", true
		}
		if payer := c.limiter.Load(); c.spend(ctx, payer) == 0 {
			sub.paid.Store(true)
			return payer.Name, true
		}
	}
	return "", false
}

// maxCharges bounds how many subscribers are asked in vain, because others were faster or
// replicas know better.
const maxCharges = 3

// affordable returns a subscriber whose limits allow a request; nil for none.
func (ts *topics) affordable(t *topic) (*follower, *subscription) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for c, sub := range t.subscribers {
		if t.free || c.reserved.Load() || c.limiter.Load().Affords() {
			return c, sub
		}
	}
	return nil, nil
}

// wait returns when the answer may have changed since a tip: with the block after height, with
// another epoch, in seconds' mode when it is fresh no more, and after a failure soon.
func (t *topic) wait(ctx context.Context, since node.Tip, height int64, failed bool) {
	patience := max(4*since.Interval, retryInterval)
	switch {
	case failed:
		patience = retryInterval
	case !since.Known:
		patience = max(t.fresh, retryInterval)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.await(ctx, func(now node.Tip) bool { return now.Epoch != since.Epoch || since.Known && now.Height > height })
}

// awaitRollback returns when another epoch is in force.
func (t *topic) awaitRollback(ctx context.Context, epoch int64) {
	t.await(ctx, func(now node.Tip) bool { return now.Epoch != epoch })
}

// await returns when the tip is as it is awaited, or ctx ends.
func (t *topic) await(ctx context.Context, awaited func(now node.Tip) bool) {
	for ctx.Err() == nil {
		moved := t.heights.Moved()
		if awaited(t.heights.Tip()) {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}
