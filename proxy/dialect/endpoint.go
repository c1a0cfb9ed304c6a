package dialect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Question is a request reduced to what its answer depends on, and the origin of the answer. Requests for
// the same have the same Key, however they were spelled.
type Question struct {
	blocks.Query
	Path     string // what the node is asked, as the dialect's origin takes it
	RawQuery string // encoded, without ?
	Misspelt string // parameters of the query that are ignored, and were probably meant
	ep       *Endpoint
}

// An Endpoint answers the requests of one row, in whatever dialect.
type Endpoint struct {
	*Table
	*Parser
	Kind    *blocks.Kind
	Mounted web.Route                                   // as which requests come to it
	Page    func(q *Question, v Values) (Values, error) // reads what is asked of a page; nil: as it was given

	unpinned bool // CometBFT answers, with the newest whatever height is named
	origin   Origin
}

func (ep *Endpoint) serve(c *gin.Context, rec *web.Record) error {
	q, err := ep.Parse(c.Request)
	if err != nil {
		return err
	}
	return ep.Reply(c, rec, q)
}

// Parse reads what a request asks for. With the error of a height that a gateway cannot read comes the
// question without one.
func (ep *Endpoint) Parse(r *http.Request) (*Question, error) {
	if r.ContentLength != 0 && ep.NoBody && hasBody(r) {
		return nil, web.BadInput("a %s request takes no body", r.Method)
	}
	q := &Question{ep: ep}
	q.Kind, q.Origin, q.Cost = ep.Kind, q, ep.Cost
	var bad error
	if q.Heights, bad = ep.Heights.Read(r); ep.unpinned {
		q.Pinned = 0
	}
	return q, cmp.Or(bad, ep.spell(q, r.URL))
}

// spell puts what a request asks into the question: the key, and what the node is asked, in their one
// spelling.
func (ep *Endpoint) spell(q *Question, u *url.URL) (err error) {
	var values Values
	if q.Path, err = ep.ReadPath(u.Path); err == nil && u.RawQuery != "" {
		values, err = ep.readQuery(q, u.RawQuery)
	}
	switch {
	case err == nil:
		q.spell(ep.Prefix, values)
	case ep.manner == Gateway:
		ep.keep(q, u)
	default:
		return err
	}
	return nil
}

// spell makes the key of the path and the values, and the query that the node is asked.
func (q *Question) spell(prefix string, v Values) {
	var room [256]byte
	text := AppendPath(append(room[:0], prefix...), q.Path)
	end := len(text)
	if len(v) > 0 {
		text = v.Append(append(text, '?'))
	}
	q.Key = string(text)
	q.RawQuery = strings.TrimPrefix(q.Key[end:], "?")
}

// Reply answers a request that has been let in and understood.
func (ep *Endpoint) Reply(c *gin.Context, rec *web.Record, q *Question) error {
	if q.Misspelt != "" {
		c.Header(web.UnknownHeader, q.Misspelt)
		rec.KeepOutOfLane()
	}
	ctx := ep.Deadline(c.Request, rec)
	defer ctx.Release()
	a, err := ep.Answer(ctx, c.Request, rec, &q.Query)
	if err != nil {
		return err
	}
	ep.Respond(c.Writer, c.Request, rec, &q.Query, &a)
	return nil
}

// An Origin is how a dialect asks a node for what a question is about, and what it makes of the answer, as
// [blocks.Origin] says.
type Origin interface {
	Fetch(ctx context.Context, q *Question, r node.Request, before *cache.Entry) (*node.Answer, error)
	Entry(q *Question, a *node.Answer, before *cache.Entry) (*cache.Entry, error)
}

// Fetch asks a node for a path that was escaped here.
func (q *Question) Fetch(ctx context.Context, r node.Request, before *cache.Entry) (*node.Answer, error) {
	r.Path, r.Query = q.Path, q.RawQuery
	return q.ep.origin.Fetch(ctx, q, r, before)
}

// Entry makes what is cached of a node's answer.
func (q *Question) Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	return q.ep.origin.Entry(q, a, before)
}

// BrokenLife is the life of an answer by which the node says that it failed, whose
// fault ever that is: long enough to spare it a stampede.
const BrokenLife = time.Second

// hasBody says whether a request carries a body. The node lets one override
// the query of some paths, and here nothing reads it.
func hasBody(r *http.Request) bool {
	if r.ContentLength == 0 || r.Body == nil {
		return false
	}
	if r.ContentLength > 0 {
		return true
	}
	var one [1]byte // chunked: perhaps empty
	n, _ := io.ReadFull(r.Body, one[:])
	return n > 0
}

// plan says what a request would ask.
func (ep *Endpoint) plan(r *http.Request) (p web.Plan, err error) {
	q, err := ep.Parse(r)
	if err != nil {
		return p, err
	}
	plan, pinned, err := ep.Forecast(r, &q.Query, web.Plan{Route: ep.Name, Asks: "the node for " + q.Path, Origin: "the node"})
	if err != nil || ep.Class == blocks.Never {
		return p, err
	}
	if q.RawQuery != "" {
		plan.Asks += "?" + q.RawQuery
	}
	if pinned > 0 {
		plan.Asks = fmt.Sprintf("%s at block %d", plan.Asks, pinned)
	}
	return plan, nil
}

// feed is the request's answer as streams follow it.
func (ep *Endpoint) feed(r *http.Request) (web.Feed, error) {
	q, err := ep.Parse(r)
	if err != nil {
		return web.Feed{}, err
	}
	return ep.Feed(r, &q.Query)
}
