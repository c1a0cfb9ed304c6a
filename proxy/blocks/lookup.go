package blocks

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Result is what a query returned, and how it was read.
type Result struct {
	cache.Result
	Query cache.Query // passed to the cache
	Tip   node.Tip    // newest block when it was served

	pinned   bool  // read at a height that the client or its walk names
	batch    bool  // composed of several entries
	notified int64 // newest block that the client was notified about by an event; 0 for none
}

// Keyed reports whether requests need an API key.
func (r *Reader) Keyed() bool { return r.o.Auth }

// AdmitCall admits clients with a valid key, and adds their rate limits to the headers of the response.
func (r *Reader) AdmitCall(from *http.Request, answer http.Header, rec *record.Record) error {
	if !r.o.Auth {
		return nil
	}
	return r.Stack.AdmitKey(from, answer, rec)
}

// OnRevoked is [conn.Revocations.OnRevoked] for clients that AdmitCall has admitted.
func (r *Reader) OnRevoked(from *http.Request, operation func() string, end func(error)) (release func(), err error) {
	return r.Stack.OnRevoked(from, r.o.Auth, operation, end)
}

// Deadline returns a context with the deadline of a request. The caller must call Release.
func (r *Reader) Deadline(from *http.Request, rec *record.Record) *upstream.LazyDeadline {
	return upstream.WithLazyDeadline(from.Context(), r.Stack.Deadline(rec.Start))
}

// Answer serves q through the cache, at the tip that AwaitBlock returns, and reads the node on a miss. It sets
// rec.Replayer: if memory answered, package web registers the response with the fast lane, which then serves identical
// requests without calling this handler.
func (r *Reader) Answer(ctx context.Context, from *http.Request, rec *record.Record, q *Read) (Result, error) {
	tip, err := r.AwaitBlock(ctx, from, rec, q)
	if err != nil {
		return Result{}, err
	}
	if q.Walk.Height == 0 && rec.LaneSlot != nil {
		rec.Replayer = r.Replayer(q, record.LaneMayServe)
	}
	return r.Lookup(ctx, from, rec, q, tip)
}

// AwaitBlock returns the tip to serve a query at, and records it. It waits for the block that the
// request, its session or its connection requires, or refuses the request.
func (r *Reader) AwaitBlock(ctx context.Context, from *http.Request, rec *record.Record, q *Read) (tip node.Tip, err error) {
	tip = r.Nodes.Tip()
	if seen, _ := rec.Session.Seen(tip.Epoch); seen > tip.Height || q.Heights != (Heights{}) || r.Stack.SessionCookies() {
		tip, err = r.await(ctx, from, rec, q)
	}
	rec.Tip, rec.Pinned = tip.Height, q.Pinned > 0
	return tip, err
}

// Lookup serves q from the cache, at a tip, and reads the nodes on a miss. A later page of a walk is read at the block of the
// walk, as long as a node has that block. Lookup does not register anything with the fast lane: the caller may change the result.
func (r *Reader) Lookup(ctx context.Context, from *http.Request, rec *record.Record, q *Read, tip node.Tip) (Result, error) {
	if at, ok := r.snapshot(ctx, rec, q, tip); ok {
		a, err := r.get(ctx, from, rec, at, tip)
		if err != nil || !isOutOfReach(a.Result) {
			rec.Pinned = true
			return a, err
		}
	}
	a, err := r.get(ctx, from, rec, q, tip)
	if err != nil || q.Kind.Class.Fixed() && a.Entry.Status == http.StatusOK {
		return a, err
	}
	return a, r.CheckHeight(a.Entry.Height, q.Min)
}

// get serves q from the first of: a fresh entry in memory; the item that the request has waited for; an entry from the block that
// an event has notified the client about; and what the cache has.
func (r *Reader) get(ctx context.Context, from *http.Request, rec *record.Record, q *Read, tip node.Tip) (a Result, err error) {
	a = Result{Query: r.cacheQuery(q, tip), Tip: tip, pinned: q.Pinned > 0, batch: q.Batch != nil}
	markStaleBeforeSession(&a.Query, rec)
	var ok bool
	if a.Result, ok = r.cache.Fresh(a.Query, time.Now(), nil); ok {
		return a, nil
	}

	// One read per block answers all requests that wait for an item (see web.WithItem), and its entry may have expired since.
	if item := web.ItemOf(from); item != nil {
		a.Result = cache.Result{Entry: item, Outcome: cache.Hit, Store: "memory"}
		return a, nil
	}

	l := &loader{Reader: r, q: q, client: rec.Client.Name(), many: r.Stack.Admission.IsMany(&rec.Client)}
	notified, givenUp := r.Stack.NotifiedBlock(from, tip.Epoch)
	if notified > a.Query.MinHeight && notified <= a.Query.Tip && !a.pinned && !a.Query.Policy.Immutable {
		if a.notified = notified; !givenUp {
			a.Result, err = r.getNotified(ctx, from, a.Query, notified, l)
			if err == nil {
				return a, nil
			}
			if ctx.Err() == nil {
				r.Stack.GiveUpOn(from, tip.Epoch, notified)
			}
		}
	}
	a.Result, err = l.get(ctx, a.Query)
	return a, err
}

// maxNotifiedWait is the longest wait for an entry from a block that the client was notified about, if an older entry could be
// served. A proxy that does not name its clients counts as one client. Because only one of its users may have received the
// event, the wait is then as short as for any newer block.
const maxNotifiedWait = 5 * time.Second

// getNotified reads an entry that is no older than the block that the client was notified about. If it fails, the response may be
// older and is marked as stale, and later requests do not wait for that block.
func (r *Reader) getNotified(ctx context.Context, from *http.Request, query cache.Query, notified int64, l *loader) (cache.Result, error) {
	wait := maxNotifiedWait
	if r.Stack.Admission.Trusts(r.Stack.Admission.AddressOf(from)) {
		wait = cache.Patience(r.o.Patience, r.Nodes.Tip().Interval)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	query.MinHeight = notified
	return l.get(ctx, query)
}

func (r *Reader) cacheQuery(q *Read, tip node.Tip) cache.Query {
	policy := *q.Kind.policy.Load()
	if q.Pinned > 0 {
		policy = r.classes.Load().Pinned
	}
	query := cache.Query{
		Key: q.key(), Policy: policy, MinHeight: q.Min, MaxHeight: tip.Limit,
		Ahead: q.Pinned == 0 && q.Ask.Cost < node.Scan && !q.isLong(), Confined: q.Kind.Class == Unknown,
	}
	if tip.Known {
		query.Tip, query.Interval = tip.Height, tip.Interval
	}
	if q.Batch != nil { // its parts are stored
		query.Policy.Keep = 0
	}
	return query
}

// maxRetained is the maximum size of a request, in bytes, that is kept after its response, to be read ahead. For a
// longer one, memory is reserved while it is read, because its client may have left.
const maxRetained = 2 << 10

func (q *Read) isLong() bool { return max(len(q.Key), q.Size) > maxRetained }

// key returns the cache key: one for the newest block, replaced block by block, and one for each block that is
// requested by its height.
func (q *Read) key() string {
	if q.Pinned == 0 {
		return q.Key
	}
	buf := make([]byte, 0, len(q.Key)+len("@9223372036854775807"))
	return string(strconv.AppendInt(append(append(buf, q.Key...), '@'), q.Pinned, 10))
}

// markStaleBeforeSession makes entries stale that are older than the block of the session.
func markStaleBeforeSession(query *cache.Query, rec *record.Record) {
	if minHeight := rec.Session.Least; minHeight > 0 {
		limitAge(query, max(0, query.Tip-minHeight))
	}
}

// limitAge makes entries stale that are more than blocks behind the tip. If the policy lets other callers use older
// ones, the key is not read ahead for this caller.
func limitAge(query *cache.Query, blocks int64) {
	if blocks < query.Policy.FreshBlocks {
		query.Policy.FreshBlocks, query.Ahead = blocks, false
	}
}
