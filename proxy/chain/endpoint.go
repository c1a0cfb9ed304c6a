package chain

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Dialect is what a chain's nodes speak, for the requests of one row.
type Dialect interface {
	// Parse reads what a request asks for.
	Parse(c *gin.Context) (Question, error)
	// Fetch asks a node.
	Fetch(ctx context.Context, r node.Request) (*node.Answer, error)
	// Entry makes what is cached of a node's answer. prev is the entry before, nil
	// for none.
	Entry(q *Question, a *node.Answer, prev *cache.Entry) (*cache.Entry, error)
}

// A Question is a request reduced to what its answer depends on. Requests for the
// same have the same Key, however they were spelled.
type Question struct {
	Key   string // canonical path and query, behind the dialect's prefix; @ and the height if there is one
	Path  string // what the node is asked, as the dialect's Fetch takes it
	Query string // encoded, without ?
	Cost  node.Cost
	Heights

	Misspelt string  // parameters of the query that are ignored, and were probably meant
	limit    uint64  // of a page of a list; 0 for the node's default
	reverse  bool    // the list from its end
	walk     walkKey // what the page key said besides; zero where it is the node's own
}

// An Endpoint answers the requests of one row, in whatever dialect.
type Endpoint struct {
	*Reader
	Dialect
	Row
	place int // among the rows
	good  goodInputs
	tell  func(web.Answer) web.Answer // adds what the dialect tells of an answer; nil: nothing
}

// Endpoint makes the endpoint of a row, by its place among the reader's. tell adds
// what the dialect tells of an answer; nil stands for nothing. An answer is a value, so
// that it needs no memory of its own.
func (r *Reader) Endpoint(place int, d Dialect, tell func(web.Answer) web.Answer) *Endpoint {
	return &Endpoint{Reader: r, Dialect: d, Row: r.rows[place], place: place, tell: tell}
}

// Route is the endpoint as it is mounted; render writes failures.
func (ep *Endpoint) Route(serve web.Handler, render web.Renderer) web.Route {
	return web.Route{Handler: ep.Stack.Handle(ep.Name, render, serve), Render: render, Plan: ep.plan, Feed: ep.feed}
}

// Serve answers a request.
func (ep *Endpoint) Serve(c *gin.Context, rec *web.Record) error {
	if err := ep.Admit(c, rec); err != nil {
		return err
	}
	q, err := ep.Parse(c)
	if err != nil {
		return err
	}
	return ep.Reply(c, rec, &q)
}

// Reply answers a request that has been let in and understood.
func (ep *Endpoint) Reply(c *gin.Context, rec *web.Record, q *Question) error {
	if q.Misspelt != "" {
		c.Header(web.UnknownHeader, q.Misspelt)
		rec.Once()
	}
	ctx := web.WithLazyDeadline(c.Request.Context(), ep.Stack.Deadline(rec.Start))
	defer ctx.Release()
	tip, err := ep.Settle(ctx, c.Request, rec, &q.Heights, q.walk.height)
	if q.Pinned == 0 && err == nil {
		tip = ep.follow(ctx, rec, tip)
	}
	rec.Tip, rec.Pinned = tip.Height, q.Pinned > 0
	if err != nil {
		return err
	}
	query, res, err := ep.Lookup(ctx, c.Request, rec, q, tip)
	if err != nil {
		return err
	}
	if h := res.Entry.Height; 0 < h && h < q.Min { // of a node that catches up
		return ep.late(q.Min, nil)
	}
	ep.Respond(c, rec, res, &query, tip)
	return nil
}

// Respond writes an answer of the cache.
func (ep *Endpoint) Respond(c *gin.Context, rec *web.Record, res cache.Result, query *cache.Query, tip node.Tip) {
	a := ep.answer(rec, res, query, tip, time.Now())
	if ep.tell != nil {
		a = ep.tell(a)
	}
	ep.Stack.Respond(c.Writer, c.Request, &a)
}

// Lookup asks the cache: a later page of a walk at the block of the walk, where
// that can still be read.
func (ep *Endpoint) Lookup(ctx context.Context, r *http.Request, rec *web.Record, q *Question, tip node.Tip) (cache.Query, cache.Result, error) {
	if q.walk.height > 0 {
		if sq, ok := ep.snapshot(ctx, q, tip); ok {
			query := ep.query(sq, tip)
			res, err := ep.Cache.Get(ctx, query, ep.origin(sq, r, rec))
			if err != nil || !outOfReach(res) {
				rec.Pinned = true
				return query, res, err
			}
		}
	}
	query := ep.query(q, tip)
	if q.walk.height == 0 && rec.Repeatable() {
		rec.Repeat(&memory{ep, q})
	}
	res, err := ep.Cache.Get(ctx, query, ep.origin(q, r, rec))
	return query, res, err
}

// query is what the cache is asked: one slot for the newest state, replaced block by
// block, and one for each block that is asked for by its height.
func (ep *Endpoint) query(q *Question, tip node.Tip) cache.Query {
	inForce := ep.policies.Load()
	policy := inForce.rows[ep.place]
	if q.Pinned > 0 {
		policy = inForce.Pinned
	}
	asked := cache.Query{Key: q.Key, LatencyClass: int(q.Cost), Policy: policy, MinHeight: q.Min, MaxHeight: tip.Limit, Audit: ep.Class.Pinned(), Ahead: q.Pinned == 0 && q.Cost != node.Scan}
	if tip.Known {
		asked.Tip, asked.Interval = tip.Height, tip.Interval
	}
	if q.Pinned > 0 || policy.Immutable {
		asked.MinHeight = 0 // what is fixed was seen, however long ago
	}
	return asked
}

// origin asks the node, which is what a miss comes to, on behalf of the client of a
// request.
func (ep *Endpoint) origin(q *Question, from *http.Request, rec *web.Record) cache.Origin {
	return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		return ep.fetch(ctx, q, ep.Stack.Client(from, rec), prev)
	}
}

// fetch asks the node on behalf of a client.
func (ep *Endpoint) fetch(ctx context.Context, q *Question, client string, prev *cache.Entry) (*cache.Entry, error) {
	a, err := ep.read(ctx, node.Request{
		Path: q.Path, Query: q.Query, Height: cmp.Or(q.Pinned, node.AtTip), Unpinned: !ep.Class.Pinned(), Cost: q.Cost,
		Client: client, Background: cache.InBackground(ctx), Ahead: cache.Ahead(ctx),
	})
	if err == nil {
		a = ep.good.judge(q, a, prev, time.Now())
	}
	policy := ep.policies.Load().rows[ep.place]
	if err = silence(a, err, q.Pinned == 0, prev != nil && policy.Outlives(prev)); err != nil {
		return nil, err
	}
	return ep.Entry(q, a, prev)
}

// read asks the node, for an audit as that wants it: with what the node has to spare.
func (ep *Endpoint) read(ctx context.Context, r node.Request) (*node.Answer, error) {
	reading := cache.ReadingOf(ctx)
	if reading == nil {
		return ep.Fetch(ctx, r)
	}
	if reading.Audit {
		r.Height, r.Only, r.Avoid, r.Audit, r.Ahead = reading.Height, reading.Only, reading.Avoid, true, true
	}
	a, err := ep.Fetch(ctx, r)
	if err == nil {
		reading.By = a.Node
		if a.Reason == node.OK || a.Reason == node.NotFound || a.Reason == node.BadInput || a.Reason == node.Refused {
			reading.At = a.Height
		}
	}
	return a, err
}

// plan says what a request would ask.
func (ep *Endpoint) plan(c *gin.Context) (web.Plan, error) {
	q, tip, err := ep.ask(c)
	if err != nil || ep.Class == Never {
		return web.Plan{}, err
	}
	asked := &q
	if sq, ok := ep.snapshot(c.Request.Context(), asked, tip); ok {
		asked = sq
	}
	p := web.Plan{Route: ep.Name, Class: string(ep.Class), Asks: "the node for " + q.Path, Origin: "the node", Query: ep.query(asked, tip)}
	if q.Query != "" {
		p.Asks += "?" + q.Query
	}
	if asked.Pinned > 0 {
		p.Class, p.Asks = "pinned", fmt.Sprintf("%s at block %d", p.Asks, asked.Pinned)
	}
	return p, nil
}

// ask reads a request that is not answered now, and waits for the block that it must
// see.
func (ep *Endpoint) ask(c *gin.Context) (q Question, tip node.Tip, err error) {
	if q, err = ep.Parse(c); err == nil {
		tip, err = ep.Settle(c.Request.Context(), c.Request, &web.Record{}, &q.Heights, q.walk.height)
	}
	return q, tip, err
}

// A memory answers a request of an endpoint again, at the newest block or at the
// one that it names. Pages of a walk are not among these requests.
type memory struct {
	*Endpoint
	asked *Question
}

// Recall answers as long as memory can.
func (m *memory) Recall(rec *web.Record, a *web.Answer) bool {
	tip := m.Nodes.Tip()
	if m.waits(rec, &m.asked.Heights, tip) {
		return false
	}
	query := m.query(m.asked, tip)
	res, ok := m.Cache.Fresh(query, rec.Start)
	if ok {
		rec.Tip, rec.Pinned = tip.Height, m.asked.Pinned > 0
		*a = m.answer(rec, res, &query, tip, rec.Start)
		if m.tell != nil {
			*a = m.tell(*a)
		}
	}
	return ok
}
