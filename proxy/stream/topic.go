package stream

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
)

// retryInterval is the time between two tries to read an answer that failed.
const retryInterval = time.Second

// topics are the subjects that are followed, each once however many stream it.
type topics struct {
	heights Heights
	mu      sync.Mutex
	byKey   map[string]*topic
}

// A topic follows a subject for its subscribers, and ends with the last of them.
type topic struct {
	subject
	heights Heights
	news    atomic.Pointer[news]

	subscribers map[*client]struct{} // guarded by topics.mu
	waking      []*client            // by publish
	cancel      context.CancelFunc
	done        chan struct{}
}

// A subject is what a topic is about.
type subject struct {
	key   string        // subjects of one key are one
	at    int64         // the height at which it never changes; 0 for the newest
	fresh time.Duration // between two reads where no tip is known
	// read tells what it is now, and at which height; before is what it was, nil
	// for unknown. Beside an error, what it is now may be old or nil.
	read func(ctx context.Context, before *event) (now *event, height int64, err error)
}

// answersOf is the subject of a feed.
func answersOf(f web.Feed) subject {
	return subject{"answer " + f.Key, f.Height, f.Fresh, func(ctx context.Context, before *event) (*event, int64, error) {
		res, err := f.Read(ctx)
		if err != nil {
			return before, 0, err
		}
		now := before
		if before == nil || before.tag != tagOf(res.Entry) {
			now = answerEvent(res.Entry, f.Essence(res.Entry.Body))
		}
		return now, res.Entry.Height, res.Err
	}}
}

// blocksOf is the subject of the chain's blocks.
func blocksOf(heights Heights) subject {
	return subject{key: "blocks", read: func(context.Context, *event) (*event, int64, error) {
		height := heights.Tip().Height
		return blockEvent(height), height, nil
	}}
}

// news is what a topic has to tell.
type news struct {
	answer  *event // nil: none yet
	failure *event // why answer is not newer; nil: it is the newest
}

// subscribe adds a client to the topic of a subject.
func (ts *topics) subscribe(s subject, c *client) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byKey[s.key]
	if t == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t = &topic{subject: s, heights: ts.heights, subscribers: map[*client]struct{}{}, cancel: cancel, done: make(chan struct{})}
		t.news.Store(&news{})
		ts.byKey[s.key] = t
		go func() {
			defer close(t.done)
			t.follow(ctx, func() { ts.publish(t) })
		}()
	}
	t.subscribers[c] = struct{}{}
	return t
}

// unsubscribe takes a client off. With the last one the topic ends, and is
// waited for.
func (ts *topics) unsubscribe(t *topic, c *client) {
	ts.mu.Lock()
	delete(t.subscribers, c)
	last := len(t.subscribers) == 0 && ts.byKey[t.key] == t
	if last {
		delete(ts.byKey, t.key)
	}
	ts.mu.Unlock()
	if last {
		t.cancel()
		<-t.done
	}
}

// batch is how many clients are woken at once. All at once would keep requests
// waiting that come meanwhile, until the last of thousands was written to.
const batch = 32

// publish wakes the subscribers of a topic, and lets others run in between.
func (ts *topics) publish(t *topic) {
	ts.mu.Lock()
	t.waking = slices.AppendSeq(t.waking[:0], maps.Keys(t.subscribers))
	ts.mu.Unlock()
	for some := range slices.Chunk(t.waking, batch) {
		for _, c := range some {
			c.notify()
		}
		runtime.Gosched()
	}
	clear(t.waking)
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

// follow reads the subject at every block, and calls publish where that told
// something new.
func (t *topic) follow(ctx context.Context, publish func()) {
	for ctx.Err() == nil {
		tip, old := t.heights.Tip(), t.news.Load()
		answer, height, err := t.read(ctx, old.answer)
		if ctx.Err() != nil {
			return
		}
		next := &news{answer: answer}
		if err != nil {
			next.failure = failureEvent(err)
		}
		t.news.Store(next) // if only for the page key, which new clients get
		if next.differs(old) {
			publish()
		}
		if err == nil && t.at > 0 && height == t.at {
			<-ctx.Done()
			return
		}
		t.wait(ctx, max(tip.Height, height), err != nil)
	}
}

func (n *news) differs(old *news) bool {
	return !n.answer.saysAs(old.answer) || !n.failure.saysAs(old.failure)
}

// wait returns when the answer may have changed: with the block after height, in
// seconds' mode when it is fresh no more, and after a failure soon.
func (t *topic) wait(ctx context.Context, height int64, failed bool) {
	tip := t.heights.Tip()
	patience := max(4*tip.Interval, retryInterval) // the chain may have been set back
	switch {
	case failed:
		patience = retryInterval
	case !tip.Known:
		patience = max(t.fresh, retryInterval)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !tip.Known || t.heights.WaitHeight(ctx, height+1) != nil {
		<-ctx.Done()
	}
}
