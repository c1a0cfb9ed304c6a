package blocks

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// BatchPath answers several paths in one answer, all at one block, in every dialect.
const BatchPath = "/batch"

// Bounds of a batch.
const (
	MaxBatchPaths = 20
	MaxBatchBytes = 4 << 20 // of its answers together, not encoded
)

// A Batch is what a Query asks in place of an origin: other queries, whose answers are of
// one block. They are asked as if each were asked alone. What is made of them is kept in
// memory, and not in the shared store, which has the answers.
type Batch struct {
	Parts []*Query // of state, without heights; none is a batch
	// Compose makes the answer of those of the parts, in their order. It is called once
	// the request may be over.
	Compose func(height int64, parts []*cache.Entry) *cache.Content
}

// errApart is what a batch comes to whose parts are of no one block in time.
var errApart = &web.Failure{Status: http.StatusGatewayTimeout, RetryAfter: time.Second, Expected: true, Public: "the answers are not at hand at one block at present"}

// compose makes the answer of a batch. It fails where that would be no newer than the one
// before, which then stands in.
func (a *asking) compose(ctx context.Context, before *cache.Entry) (*cache.Entry, error) {
	t := &together{Reader: a.Reader, client: a.name(), parts: a.q.Batch.Parts, min: a.q.Min, patient: before != nil}
	height, err := t.readBatch(ctx, a.q.Pinned, before)
	if err != nil && cache.Ahead(ctx) {
		return nil, cache.ErrYielded
	}
	if err != nil {
		return nil, err
	}
	return t.entry(height, a.q), nil
}

// entry is what is made of the parts.
func (t *together) entry(height int64, q *Query) *cache.Entry {
	e, parts, lasting := &cache.Entry{Height: height, ReadAt: time.Now()}, make([]*cache.Entry, len(t.reads)), true
	for i := range t.reads {
		part := t.reads[i].Entry
		parts[i] = part
		if part.ReadAt.Before(e.ReadAt) {
			e.ReadAt = part.ReadAt
		}
		if !part.Expires.IsZero() && (e.Expires.IsZero() || part.Expires.Before(e.Expires)) {
			e.Expires = part.Expires
		}
		lasting = lasting && q.Batch.Parts[i].Kind.policy.Load().Outlives(part.Stamp())
		if q.Pinned > 0 && part.Height == 0 { // no node has the block
			e.Height = 0
		}
	}
	if e.Content = q.Batch.Compose(height, parts); lasting {
		e.Source = 1
	}
	return e
}

// together are several queries that are read at one block.
type together struct {
	*Reader
	client  string
	parts   []*Query
	min     int64 // block that must have been seen; 0 for none
	patient bool  // something else is at hand meanwhile
	tip     node.Tip
	reads   []partRead
}

// A partRead is what one of them came to: an entry, or why there is none.
type partRead struct {
	cache.Result
	err error
}

// maxRounds bounds how often parts are asked again because a block came while they were
// read.
const maxRounds = 3

// readBatch reads all parts at the height, or if that is 0 at the newest block that all
// of them have, and returns the block.
func (t *together) readBatch(ctx context.Context, pinned int64, before *cache.Entry) (height int64, err error) {
	if pinned > 0 {
		t.ask(ctx, t.begin(), pinned, 0)
		return pinned, t.failure()
	}
	t.gather(ctx)
	if err := t.failure(); err != nil {
		return 0, err
	}
	low, high := t.span()
	if before != nil && low <= before.Height && low < t.tip.Height {
		return 0, t.noNewer()
	}
	if low < high {
		above := t.those(func(r *partRead, stateless bool) bool { return !stateless && r.Entry.Height > low })
		t.ask(ctx, above, low, 0)
		if now, top := t.span(); now != low || top != low {
			return 0, t.noNewer()
		}
	}
	if low == 0 || t.Nodes.Tip().Epoch != t.tip.Epoch {
		return 0, t.noNewer()
	}
	return low, nil
}

// noNewer says why a batch is not made.
func (t *together) noNewer() error {
	why := *errApart
	for i := range t.reads {
		if err := t.reads[i].Err; err != nil {
			why.Err = err
		}
	}
	return errors.Join(cache.ErrBehind, &why)
}

// gather asks all parts at the tip, and once more the parts that are behind others because a
// block came meanwhile.
func (t *together) gather(ctx context.Context) {
	t.ask(ctx, t.begin(), 0, 0)
	for range maxRounds {
		if t.failure() != nil {
			return
		}
		_, newest := t.span()
		behind := t.those(func(r *partRead, stateless bool) bool {
			return !stateless && r.Entry.Height < newest && (r.Outcome == cache.Hit || r.Outcome == cache.Miss)
		})
		if len(behind) == 0 {
			return
		}
		t.reach(ctx, newest)
		t.ask(ctx, behind, 0, newest)
	}
}

// reach waits a little for a block that others tell of.
func (t *together) reach(ctx context.Context, height int64) {
	if t.tip.Known && t.tip.Height < height {
		ctx, cancel := context.WithTimeout(ctx, cache.Patience(t.o.Patience, t.tip.Interval))
		defer cancel()
		t.Nodes.Raise(height)
		_ = t.Nodes.WaitHeight(ctx, height)
	}
	if tip := t.Nodes.Tip(); tip.Epoch == t.tip.Epoch {
		t.tip = tip
	}
}

// begin takes the tip to go by, and chooses all parts.
func (t *together) begin() (which []int) {
	t.tip, t.reads = t.Nodes.Tip(), make([]partRead, len(t.parts))
	return t.those(func(*partRead, bool) bool { return true })
}

// ask asks for some parts at once, at a block or, where that is 0, at the newest from least on. A part that
// has an answer keeps it where there is no other.
func (t *together) ask(ctx context.Context, which []int, at, least int64) {
	var asking sync.WaitGroup
	for _, i := range which {
		asking.Go(func() {
			res, err := t.askOne(ctx, t.parts[i], at, least)
			if err == nil || t.reads[i].Entry == nil {
				t.reads[i] = partRead{res, err}
			}
		})
	}
	asking.Wait()
}

func (t *together) askOne(ctx context.Context, q *Query, at, least int64) (cache.Result, error) {
	if at > 0 {
		q = q.at(at)
	}
	asked := t.asked(q, t.tip)
	if q.Pinned == 0 { // a block is one, however long answers are fresh
		asked.MinHeight, asked.Policy.FreshBlocks = max(least, t.min), 0
		if t.patient {
			asked.Policy.StaleBlocks, asked.Policy.Stale = 0, asked.Policy.Fresh
		}
	}
	return (&asking{Reader: t.Reader, q: q, client: t.client}).get(ctx, asked)
}

// those are the parts that are chosen. A stateless one has an answer that says nothing of
// a block.
func (t *together) those(chosen func(r *partRead, stateless bool) bool) (which []int) {
	for i := range t.reads {
		if r := &t.reads[i]; chosen(r, r.Entry != nil && t.parts[i].stateless(r.Entry)) {
			which = append(which, i)
		}
	}
	return which
}

// failure is that of a part without an answer; nil for none.
func (t *together) failure() error {
	for i := range t.reads {
		if err := t.reads[i].err; err != nil {
			return err
		}
	}
	return nil
}

// span is the lowest and the highest block of the answers of state; both the tip where
// there are none.
func (t *together) span() (low, high int64) {
	low, high = t.tip.Height, t.tip.Height
	for n, i := range t.those(func(_ *partRead, stateless bool) bool { return !stateless }) {
		height := t.reads[i].Entry.Height
		if n == 0 {
			low, high = height, height
		}
		low, high = min(low, height), max(high, height)
	}
	return low, high
}

// stateless tells of an answer that says nothing of the state at a block, such as one to
// parameters that the node does not understand.
func (q *Query) stateless(e *cache.Entry) bool {
	if e.Status == http.StatusOK {
		return false
	}
	if e.Height == 0 {
		return true
	}
	return q.Kind.Tell != nil && q.Kind.Tell(e, q.Key).NoHeight
}
