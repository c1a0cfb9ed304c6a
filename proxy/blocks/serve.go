package blocks

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Result is what a read returned, and how it was read.
type Result struct {
	cache.Result
	Query cache.Query // passed to the cache
	Tip   node.Tip    // newest block when it was served

	pinned   bool  // read at a height that the client or its walk names
	batch    bool  // composed of several entries
	notified int64 // newest block that the client was notified about by an event; 0 for none

	token session.Token // of a client that has seen the result
}

// Serve answers a read over HTTP. RPC and gRPC, whose responses differ, call the same functions in the same order.
func (r *Reader) Serve(from *web.Request, q *Read) error {
	rec := &from.Record
	if q.Typos != "" {
		from.ResponseHeader.Set(respond.UnknownHeader, q.Typos)
		rec.KeepOutOfLane()
	}
	ctx := r.Stack.WithDeadline(from)
	defer ctx.Release()

	// The block: the newest, or a later one that the request names or its client has seen, which may have to arrive.
	tip, err := r.AwaitBlock(ctx, from, q)
	if err != nil {
		return err
	}
	// If memory answers, the fast lane may answer equal requests from now on, by the Replayer.
	if q.Walk.Height == 0 && rec.LaneSlot != nil {
		rec.Replayer = r.Replayer(q, record.LaneMayServe)
	}
	// The entry: from memory, Redis or a node.
	a, err := r.Lookup(ctx, from, q, tip)
	if err != nil {
		return err
	}
	// The response: the entry, and what is known about it.
	var res respond.Response
	r.describe(&res, rec, q, &a, time.Now())
	if from.Amend != nil {
		from.Amend(&res)
	}
	a.Entry = nil // it may be freed while the client reads
	r.KeepSession(from, a.Tip, &res)
	r.Stack.Responder.Respond(from.Writer, from.Request, &res)
	return nil
}

// AwaitBlock returns the tip to serve a read at, and records it. It waits for the block that the request, its session or its
// connection requires, or refuses the request.
func (r *Reader) AwaitBlock(ctx context.Context, from *web.Request, q *Read) (tip node.Tip, err error) {
	rec := &from.Record
	tip = r.Nodes.Tip()
	if seen, _ := rec.Session.Seen(tip.Epoch); seen > tip.Height || q.Heights != (web.Heights{}) || r.Stack.SessionCookies() {
		tip, err = r.awaitRequired(ctx, from, q)
		if err == nil && q.Pinned == 0 && q.Kind.Class != Never {
			tip = r.awaitSeen(ctx, from, q, tip)
		}
	}
	rec.Tip, rec.Pinned = tip.Height, q.Pinned > 0
	return tip, err
}

// Lookup reads through the cache at a tip, and asks the nodes on a miss. A later page of a walk is read at the block of the
// walk, as long as a node has that block.
func (r *Reader) Lookup(ctx context.Context, from *web.Request, q *Read, tip node.Tip) (Result, error) {
	if at, ok := r.snapshot(ctx, from, q, tip); ok {
		a, err := r.lookup(ctx, from, at, tip)
		if err != nil || !isOutOfReach(a.Result) {
			from.Record.Pinned = true
			return a, err
		}
	}
	a, err := r.lookup(ctx, from, q, tip)
	if err != nil || q.Kind.Class.Fixed() && a.Entry.Status == http.StatusOK {
		return a, err
	}
	return a, r.CheckHeight(a.Entry.Height, q.Min)
}

// lookup returns the first of: a fresh entry in memory; the item that the request has waited for; an entry from the block that
// an event has notified the client about; and what the cache has.
func (r *Reader) lookup(ctx context.Context, from *web.Request, q *Read, tip node.Tip) (a Result, err error) {
	client := &from.Record.Client
	a = Result{Query: r.cacheQuery(q, tip), Tip: tip, pinned: q.Pinned > 0, batch: q.Batch != nil}
	markStaleBeforeSession(&a.Query, &from.Record)
	var ok bool
	if a.Result, ok = r.cache.Fresh(a.Query, time.Now(), nil); ok {
		return a, nil
	}

	// The last read in a block answers all requests that wait for an item, such as a transaction. Its entry may have expired since.
	if from.Item != nil {
		a.Result = cache.Result{Entry: from.Item, Outcome: cache.Hit, Store: "memory"}
		return a, nil
	}

	l := &loader{Reader: r, q: q, client: client.Name(), many: r.Stack.Admission.IsMany(client)}
	notified, givenUp := r.Stack.NotifiedBlock(from.Request, tip.Epoch)
	if notified > a.Query.MinHeight && notified <= a.Query.Tip && !a.pinned && !a.Query.Policy.Immutable {
		if a.notified = notified; !givenUp {
			a.Result, err = r.getNotified(ctx, from, a.Query, notified, l)
			if err == nil {
				return a, nil
			}
			if ctx.Err() == nil {
				r.Stack.GiveUpOn(from.Request, tip.Epoch, notified)
			}
		}
	}
	a.Result, err = l.get(ctx, a.Query)
	return a, err
}

// Keyed reports whether requests need an API key.
func (r *Reader) Keyed() bool { return r.o.Auth }

// AdmitCall admits clients with a valid key or, unless keys are required, all.
func (r *Reader) AdmitCall(from *web.Request) error {
	if !r.o.Auth {
		return nil
	}
	return r.Stack.AdmitKey(from)
}

// OnRevoked is [conn.Revocations.OnRevoked] for clients that AdmitCall has admitted.
func (r *Reader) OnRevoked(from *web.Request, operation func() string, end func(error)) (release func(), err error) {
	return r.Stack.OnRevoked(from.Request, r.o.Auth, operation, end)
}

// maxNotifiedWait is the longest wait for an entry from a block that the client was notified about, if an older entry could be
// served. A proxy that does not name its clients counts as one client. Because only one of its users may have received the
// event, the wait is then as short as for any newer block.
const maxNotifiedWait = 5 * time.Second

// getNotified reads an entry that is no older than the block that the client was notified about. If it fails, lookup serves an older
// one, marked as stale, and later requests do not wait for that block.
func (r *Reader) getNotified(ctx context.Context, from *web.Request, query cache.Query, notified int64, l *loader) (cache.Result, error) {
	wait := maxNotifiedWait
	if r.Stack.Admission.Trusts(r.Stack.Admission.AddressOf(from.Request)) {
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
	if q.Batch != nil { // Redis has its parts
		query.Policy.Keep = 0
	}
	return query
}

// maxRetained is the maximum size of a request, in bytes, that is kept after its response, to be read ahead. For one with a longer
// body, memory is reserved while it is read, because its client may have left.
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
