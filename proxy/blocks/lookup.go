package blocks

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An Answer is what a query comes to.
type Answer struct {
	cache.Result
	Asked cache.Query // what the cache was asked
	Tip   node.Tip    // by which it is an answer

	pinned    bool  // the block was chosen, by the client or by its walk
	batch     bool  // it is made of others
	announced int64 // the block that the client was told of by an event, 0 for none
}

// Keyed reports whether requests need an API key.
func (r *Reader) Keyed() bool { return r.o.Auth }

// AdmitCall lets clients pass that may ask, and adds how they stand to the headers of the answer.
func (r *Reader) AdmitCall(from *http.Request, answer http.Header, rec *web.Record) error {
	if !r.o.Auth {
		return nil
	}
	return r.Stack.AdmitKey(from, answer, rec)
}

// OnRevoked has end called once AdmitCall would not let the client of a request pass any more, until release is
// called. end must not block. The error says that the client may not pass now.
func (r *Reader) OnRevoked(from *http.Request, end func()) (release func(), err error) {
	if !r.o.Auth {
		return func() {}, nil
	}
	return r.Stack.OnRevoked(from, end)
}

// Deadline bounds the time of a request. Release must be called in the end.
func (r *Reader) Deadline(from *http.Request, rec *web.Record) *web.LazyDeadline {
	return web.WithLazyDeadline(from.Context(), r.Stack.Deadline(rec.Start))
}

// Answer answers a query from the cache, at the block that AwaitBlock finds. Where memory
// answers it and the same bytes come again, the fast lane may answer them by itself.
func (r *Reader) Answer(ctx context.Context, from *http.Request, rec *web.Record, q *Query) (Answer, error) {
	tip, err := r.AwaitBlock(ctx, from, rec, q)
	if err != nil {
		return Answer{}, err
	}
	if q.Walk.Height == 0 && rec.Repeatable() {
		rec.Repeat(r.Replayer(q, web.Repeats))
	}
	return r.Lookup(ctx, from, rec, q, tip)
}

// AwaitBlock gives the tip to answer a query by, and notes it in the record. Where the request names a
// block or a session, or its client has seen a later block than the tip, that is waited for, or refused,
// first.
func (r *Reader) AwaitBlock(ctx context.Context, from *http.Request, rec *web.Record, q *Query) (tip node.Tip, err error) {
	tip = r.Nodes.Tip()
	if seen, _ := rec.Seen(tip.Epoch); seen > tip.Height || q.Heights != (Heights{}) || r.Stack.SessionCookies() {
		tip, err = r.await(ctx, from, rec, q)
	}
	rec.Tip, rec.Pinned = tip.Height, q.Pinned > 0
	return tip, err
}

// Lookup asks the cache, by a tip: for a later page of a walk at the block of the walk,
// where that can still be read. The fast lane has no part in it: what is made of the answer
// is the caller's.
func (r *Reader) Lookup(ctx context.Context, from *http.Request, rec *web.Record, q *Query, tip node.Tip) (Answer, error) {
	if q.Walk.Height > 0 {
		if at, ok := r.snapshot(ctx, q, tip); ok {
			a, err := r.get(ctx, from, rec, at, tip)
			if err != nil || !outOfReach(a.Result) {
				rec.Pinned = true
				return a, err
			}
		}
	}
	a, err := r.get(ctx, from, rec, q, tip)
	if err != nil {
		return a, err
	}
	fixed := q.Kind.fixed && a.Entry.Status == http.StatusOK
	if h := a.Entry.Height; 0 < h && h < q.Min && !fixed { // of a node that catches up
		return a, r.late(q.Min, nil)
	}
	return a, nil
}

func (r *Reader) get(ctx context.Context, from *http.Request, rec *web.Record, q *Query, tip node.Tip) (a Answer, err error) {
	a.Asked, a.Tip, a.pinned, a.batch = r.asked(q, tip), tip, q.Pinned > 0, q.Batch != nil
	narrow(&a.Asked, rec)
	var ok bool
	if a.Result, ok = r.cache.Fresh(a.Asked, time.Now(), nil); !ok {
		err = r.load(ctx, from, rec, q, &a)
	}
	return a, err
}

// asked is what the cache is asked.
func (r *Reader) asked(q *Query, tip node.Tip) cache.Query {
	policy := *q.Kind.policy.Load()
	if q.Pinned > 0 {
		policy = r.classes.Load().Pinned
	}
	asked := cache.Query{Key: q.key(), Policy: policy, MinHeight: q.Min, MaxHeight: tip.Limit, Audit: q.Kind.pinned, Ahead: q.Pinned == 0 && q.Cost != node.Scan}
	if tip.Known {
		asked.Tip, asked.Interval = tip.Height, tip.Interval
	}
	if q.Pinned > 0 || policy.Immutable {
		asked.MinHeight = 0 // what is fixed was seen, however long ago
	}
	if q.Batch != nil { // its parts are shared, and audited
		asked.Policy.Keep, asked.Audit = 0, false
	}
	return asked
}

// key is the key of the cache: one for the newest block, which is replaced block by
// block, and one for each block that is asked for by its height.
func (q *Query) key() string {
	if q.Pinned == 0 {
		return q.Key
	}
	room := make([]byte, 0, len(q.Key)+len("@9223372036854775807"))
	return string(strconv.AppendInt(append(append(room, q.Key...), '@'), q.Pinned, 10))
}

// narrow has an entry that is before the session's block count as stale.
func narrow(asked *cache.Query, rec *web.Record) {
	if least := rec.Session.Least; least > 0 {
		asked.Policy.FreshBlocks = max(0, min(asked.Policy.FreshBlocks, asked.Tip-least))
	}
}
