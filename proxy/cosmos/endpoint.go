package cosmos

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An endpoint serves one row of the table.
type endpoint struct {
	*Handler
	row   *matcher
	route web.Route
}

// An inquiry is a request as far as it is understood: what it asks, and at which block.
type inquiry struct {
	canonicalRequest
	heights
	atKey string // with the height, if the client chose one
}

// serve answers one request.
func (ep *endpoint) serve(c *gin.Context, rec *web.Record) error {
	if err := ep.Admit(c, rec); err != nil {
		return err
	}
	q, err := ep.parse(c.Request)
	if err != nil {
		return ep.refuse(c, rec, err)
	}
	ctx := web.WithLazyDeadline(c.Request.Context(), ep.stack.Deadline(rec.Start))
	defer ctx.Release()
	tip, err := ep.Settle(ctx, c.Request, rec, q.min)
	if q.pinned == 0 && err == nil {
		tip = ep.Follow(ctx, rec, tip)
	}
	rec.Tip, rec.Pinned = tip.Height, q.pinned > 0
	if err != nil {
		return err
	}
	query, res, err := ep.lookup(ctx, c.Request, rec, q, tip)
	if err != nil {
		return err
	}
	if h := res.Entry.Height; 0 < h && h < q.min { // of a node that catches up
		return ep.Late(q.min, nil)
	}
	a := ep.answer(rec, res, &query, tip, time.Now())
	ep.stack.Respond(c.Writer, c.Request, &a)
	return nil
}

// parse reads a request. What CometBFT answers is not read at a height, whatever the client says: the
// answer would be the newest all the same.
func (ep *endpoint) parse(r *http.Request) (q inquiry, err error) {
	q.canonicalRequest = ep.index.ask(r.URL.Path, r.URL.RawQuery)
	if q.heights, err = readHeights(r.Header); err != nil {
		return q, err
	}
	if !ep.row.Class.pinned() {
		q.pinned = 0
	}
	q.atKey = q.at(q.pinned)
	return q, nil
}

// refuse answers a request whose height is none. Where it is not known whether there is such a path,
// the node is asked that first.
func (ep *endpoint) refuse(c *gin.Context, rec *web.Record, bad error) error {
	if !ep.row.open {
		return bad
	}
	ctx := web.WithLazyDeadline(c.Request.Context(), ep.stack.Deadline(rec.Start))
	defer ctx.Release()
	q := inquiry{canonicalRequest: ep.index.ask(c.Request.URL.Path, c.Request.URL.RawQuery)}
	q.atKey = q.key
	tip := ep.o.Chain.Nodes.Tip()
	query := ep.query(q, tip)
	res, err := ep.cache.Get(ctx, query, ep.origin(q, c.Request, rec))
	if err != nil || res.Entry.Status != http.StatusNotImplemented {
		return bad
	}
	a := ep.answer(rec, res, &query, tip, time.Now())
	ep.stack.Respond(c.Writer, c.Request, &a)
	return nil
}

// lookup asks the cache.
func (ep *endpoint) lookup(ctx context.Context, r *http.Request, rec *web.Record, q inquiry, tip node.Tip) (cache.Query, cache.Result, error) {
	query := ep.query(q, tip)
	if q.pinned == 0 && ep.stack.WantsNoCache(r.Header) {
		query = web.NoCache(query, rec.Start)
	} else if rec.Repeatable() {
		rec.Repeat(&memory{ep, q})
	}
	res, err := ep.cache.Get(ctx, query, ep.origin(q, r, rec))
	return query, res, err
}

func (ep *endpoint) query(q inquiry, tip node.Tip) cache.Query {
	return ep.QueryFor(q.atKey, ep.costOf(q), ep.policies.Load().Of(ep.row.place, q.pinned), q.pinned, q.min, tip)
}

// nodeHeaders are what the node's answers say of themselves, as header lines: successes name the
// height twice, errors once, and not at all without gRPC.
type nodeHeaders struct {
	codec       string
	success, no []web.Line
}

// noteCodec remembers how the node names its codec, so that answers from the cache do, too.
func (h *Handler) noteCodec(codec string) {
	if t := h.nodeHeaders.Load(); t != nil && t.codec == codec {
		return
	}
	again, height := web.Line{Name: metadataHeader}, web.Line{Name: cosmosHeader}
	t := &nodeHeaders{codec: codec, success: []web.Line{again, height}}
	if codec != "" {
		line := web.Line{Name: "Grpc-Metadata-Content-Type", Value: codec}
		t.success, t.no = []web.Line{line, again, height}, []web.Line{line, again}
	}
	h.nodeHeaders.Store(t)
}

// lines are the header lines of an answer that tells its height.
func (h *Handler) lines(status int) []web.Line {
	t := h.nodeHeaders.Load()
	if t == nil {
		h.noteCodec("")
		t = h.nodeHeaders.Load()
	}
	if status == http.StatusOK {
		return t.success
	}
	return t.no
}

// answer is what a result comes to, with the heights where the node tells them. An error that the node
// gives before it reads a state tells none, and is known by its short life.
func (ep *endpoint) answer(rec *web.Record, res cache.Result, query *cache.Query, tip node.Tip, now time.Time) web.Answer {
	a := ep.Answer(rec, res, query, tip, now)
	a.Vary = varyHeights
	a.NoHeight = ep.stateless(res.Entry, query.Key)
	a.More = ep.lines(res.Entry.Status)
	return a
}

// stateless says whether an entry says nothing about state. That of a kind that is fixed has a short life
// in any case, and says nothing only where the node did not understand the question.
func (ep *endpoint) stateless(e *cache.Entry, key string) bool {
	switch e.Status {
	case http.StatusOK, http.StatusNotFound:
		return false
	case http.StatusNotImplemented, http.StatusGatewayTimeout:
		return true
	}
	if ep.row.Class == Block || ep.row.Class == Found {
		return strings.Contains(key, uncertain)
	}
	return !e.Expires.IsZero()
}

// varyHeights names the request headers that choose between the answers of a URL.
const varyHeights = web.HeightHeader + ", " + cosmosHeader + ", " + metadataHeader + ", " + web.MinHeightHeader + ", Accept"

// A memory answers a request again.
type memory struct {
	*endpoint
	inquiry
}

// Recall answers as long as memory can.
func (m *memory) Recall(rec *web.Record, a *web.Answer) bool {
	tip := m.o.Chain.Nodes.Tip()
	if m.Waits(rec, m.pinned, m.min, tip) {
		return false
	}
	query := m.query(m.inquiry, tip)
	res, ok := m.cache.Fresh(query, rec.Start)
	if ok {
		rec.Tip, rec.Pinned = tip.Height, m.pinned > 0
		*a = m.answer(rec, res, &query, tip, rec.Start)
	}
	return ok
}
