package blocks

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// BatchPath is the path of batches in every dialect. A batch returns the responses of several paths, all at one block.
const BatchPath = "/batch"

// Bounds of a batch.
const (
	MaxBatchPaths = 20
	MaxBatchBytes = 4 << 20 // of all bodies together, before content coding
)

// A Batch is what a Read reads in place of its Source: other reads, all at one block. Each part is read as if it
// were requested alone. The composed entry is kept in memory, but not in the shared store, which has the parts.
type Batch struct {
	Parts []*Read // reads of state, without heights; none is a batch
	// Compose makes the content of a batch from the entries of the parts, in their order. It may be called after the
	// request has ended. A part with which the bodies would exceed MaxBatchBytes has the content TooLarge.
	Compose func(height int64, parts []*cache.Entry) *cache.Content
}

// TooLarge is the content in place of a body for which a batch has no room.
var TooLarge = &cache.Content{Status: http.StatusRequestEntityTooLarge}

// errDifferentBlocks is returned if the parts of a batch could not be read at one block in time.
var errDifferentBlocks = &failure.Failure{Status: http.StatusGatewayTimeout, RetryAfter: time.Second, Expected: true, Public: "the answers cannot be read at one block at present"}

// compose reads the parts of a batch and makes its entry. It fails if the entry would be no newer than the
// previous one and older than the tip. The previous entry is then served.
func (l *loader) compose(ctx context.Context, how cache.How) (*cache.Entry, error) {
	t := &batchRead{Reader: l.Reader, client: l.client, purpose: how.For, parts: l.q.Batch.Parts, min: l.q.Min, patient: how.Before != nil}
	t.many = l.many || how.For != cache.ForCaller // the client does not wait
	height, err := t.readBatch(ctx, l.q.Pinned, how.Before)
	if err != nil && how.For == cache.ForAhead {
		return nil, upstream.ErrYielded
	}
	if err != nil {
		return nil, err
	}
	done, err := t.holdBodies()
	if err != nil {
		return nil, err
	}
	defer done()
	return t.entry(height, l.q), nil
}

// holdBodies reserves memory for the body of a batch until the cache has it. For a short one it reserves nothing.
func (t *batchRead) holdBodies() (release func(), err error) {
	size := t.size()
	if size <= conn.MaxUncounted {
		size = 0
	}
	return t.Stack.HoldStream(int64(size))
}

func (t *batchRead) entry(height int64, q *Read) *cache.Entry {
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
		lasting = lasting && q.Batch.Parts[i].Kind.policy.Load().ServesPastExpires(part.Stamp())
		e.Provisional = e.Provisional || part.Provisional
		if q.Pinned > 0 && part.Height == 0 { // no node has this block
			e.Height = 0
		}
	}
	if e.Content = q.Batch.Compose(height, parts); lasting {
		e.Source = 1 // marks the batch as one that may be served past Expires, like all its parts
	}
	return e
}

// batchRead reads several parts at one block.
type batchRead struct {
	*Reader
	client  string
	many    bool // as in [loader]
	purpose cache.Purpose
	parts   []*Read
	min     int64 // the block must be at least this; 0 for any
	patient bool  // a previous entry can be served meanwhile
	tip     node.Tip
	reads   []partRead
}

// A partRead is the result of one part, or the error.
type partRead struct {
	cache.Result
	err error
}

// maxRounds bounds how often parts are read again because a block arrived meanwhile.
const maxRounds = 3

// readBatch reads all parts at the height pinned, or, if that is 0, at the newest block that all of them have. It
// returns that height.
func (t *batchRead) readBatch(ctx context.Context, pinned int64, before *cache.Entry) (height int64, err error) {
	if pinned > 0 {
		t.readParts(ctx, t.begin(), pinned, 0)
		return pinned, t.failure()
	}
	t.gather(ctx)
	if err := t.failure(); err != nil {
		return 0, err
	}
	low, high := t.span()
	if before != nil && low <= before.Height && low < t.tip.Height {
		return 0, t.behindError()
	}
	if low < high {
		above := t.selectParts(func(r *partRead, stateless bool) bool { return !stateless && r.Entry.Height > low })
		t.readParts(ctx, above, low, 0)
		for _, i := range above {
			if e := t.reads[i].Entry; e.Height != low || t.parts[i].isStateless(e) { // not read, or pruned
				return 0, t.behindError()
			}
		}
	}
	if low == 0 || t.Nodes.Tip().Epoch != t.tip.Epoch {
		return 0, t.behindError()
	}
	return low, nil
}

// behindError returns the error of a batch that cannot be composed.
func (t *batchRead) behindError() error {
	behind := *errDifferentBlocks
	for i := range t.reads {
		if err := t.reads[i].Err; err != nil {
			behind.Err = err
		}
	}
	return errors.Join(upstream.ErrBehind, &behind)
}

// gather reads all parts at the tip. Then it reads the parts that are behind others, because a block arrived meanwhile,
// up to maxRounds times.
func (t *batchRead) gather(ctx context.Context) {
	t.readParts(ctx, t.begin(), 0, 0)
	for range maxRounds {
		if t.failure() != nil {
			return
		}
		_, newest := t.span()
		behind := t.selectParts(func(r *partRead, stateless bool) bool {
			return !stateless && r.Entry.Height < newest && (r.Outcome == cache.Hit || r.Outcome == cache.Miss)
		})
		if len(behind) == 0 {
			return
		}
		t.waitForReplica(ctx, newest)
		t.readParts(ctx, behind, 0, newest)
	}
}

// waitForReplica waits briefly for a block that another replica has read at, and updates the tip.
func (t *batchRead) waitForReplica(ctx context.Context, height int64) {
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

// begin sets the tip to the current one, discards all results, and returns all parts.
func (t *batchRead) begin() (which []int) {
	t.tip, t.reads = t.Nodes.Tip(), make([]partRead, len(t.parts))
	return t.selectParts(func(*partRead, bool) bool { return true })
}

// readParts reads some parts concurrently, at a height. If that is 0, it reads them at the newest block, which must be at
// least minHeight. A part keeps its result if the new read fails.
func (t *batchRead) readParts(ctx context.Context, which []int, at, minHeight int64) {
	var reads sync.WaitGroup
	var mu sync.Mutex
	for _, i := range which {
		reads.Go(func() {
			res, err := t.readPart(ctx, t.parts[i], at, minHeight)
			mu.Lock()
			defer mu.Unlock()
			if err == nil || t.reads[i].Entry == nil {
				t.reads[i] = partRead{} // its size does not count any more
				if err == nil && t.size()+len(res.Entry.Body) > MaxBatchBytes {
					res.Entry = &cache.Entry{Content: TooLarge, Height: res.Entry.Height, ReadAt: res.Entry.ReadAt, Expires: res.Entry.Expires}
				}
				t.reads[i] = partRead{res, err}
			}
		})
	}
	reads.Wait()
}

// size returns the size of the bodies read so far.
func (t *batchRead) size() (n int) {
	for i := range t.reads {
		if e := t.reads[i].Entry; e != nil {
			n += len(e.Body)
		}
	}
	return n
}

func (t *batchRead) readPart(ctx context.Context, q *Read, at, minHeight int64) (cache.Result, error) {
	if at > 0 {
		q = q.at(at)
	}
	query := t.cacheQuery(q, t.tip)
	query.For = t.purpose
	if q.Pinned == 0 { // one block, however long entries are fresh
		query.MinHeight = max(minHeight, t.min)
		limitAge(&query, 0)
		if t.patient {
			query.Policy.StaleBlocks, query.Policy.Stale = 0, query.Policy.Fresh
		}
	}
	return (&loader{Reader: t.Reader, q: q, client: t.client, many: t.many}).get(ctx, query)
}

// selectParts returns the parts for which selected is true. The result of a stateless part does not depend on a
// block.
func (t *batchRead) selectParts(selected func(r *partRead, stateless bool) bool) (which []int) {
	for i := range t.reads {
		if r := &t.reads[i]; selected(r, r.Entry != nil && t.parts[i].isStateless(r.Entry)) {
			which = append(which, i)
		}
	}
	return which
}

// failure returns the error of a part without a result, or nil.
func (t *batchRead) failure() error {
	for i := range t.reads {
		if err := t.reads[i].err; err != nil {
			return err
		}
	}
	return nil
}

// span returns the lowest and the highest block of the parts that depend on one, or the tip for both if there are
// none.
func (t *batchRead) span() (low, high int64) {
	low, high = t.tip.Height, t.tip.Height
	for n, i := range t.selectParts(func(_ *partRead, stateless bool) bool { return !stateless }) {
		height := t.reads[i].Entry.Height
		if n == 0 {
			low, high = height, height
		}
		low, high = min(low, height), max(high, height)
	}
	return low, high
}

// isStateless reports whether an entry does not depend on the state at a block, such as the refusal of parameters that
// the node does not understand.
func (q *Read) isStateless(e *cache.Entry) bool {
	if e.Status == http.StatusOK {
		return false
	}
	if e.Height == 0 {
		return true
	}
	return q.Kind.Headers != nil && q.Kind.Headers(e, q.Key).NoHeight
}
