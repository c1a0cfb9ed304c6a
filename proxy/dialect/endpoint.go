package dialect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
)

// A Question is a request reduced to what its answer depends on. Requests for the
// same have the same Key, however they were spelled.
type Question struct {
	blocks.Query
	Path     string // what the node is asked, as the dialect's origin takes it
	RawQuery string // encoded, without ?
	Misspelt string // parameters of the query that are ignored, and were probably meant
}

// Spell puts what a request asks into the question: path and parameters in the spelling that
// the Reader gave them, and the key.
func (q *Question) Spell(prefix, path string, v Values) {
	var room [256]byte
	text := AppendPath(append(room[:0], prefix...), path)
	end := len(text)
	if len(v) > 0 {
		text = v.Append(append(text, '?'))
	}
	q.Key, q.Path = string(text), path
	q.RawQuery = strings.TrimPrefix(q.Key[end:], "?")
}

// An Endpoint answers the requests of one row, in whatever dialect.
type Endpoint struct {
	*blocks.Reader
	Row
	Kind  *blocks.Kind
	Parse func(r *http.Request) (*Question, error) // reads what a request asks for
}

// Route is the endpoint as it is mounted; render writes failures.
func (ep *Endpoint) Route(serve web.Handler, render web.Renderer) web.Route {
	return web.Route{Handler: ep.Stack.Handle(ep.Name, render, serve), Render: render, Plan: ep.plan, Feed: ep.feed, Reply: ep.reply}
}

// Serve answers a request.
func (ep *Endpoint) Serve(c *gin.Context, rec *web.Record) error {
	if err := ep.Admit(c, rec); err != nil {
		return err
	}
	return ep.reply(c, rec)
}

func (ep *Endpoint) reply(c *gin.Context, rec *web.Record) error {
	q, err := ep.Parse(c.Request)
	if err != nil {
		return err
	}
	return ep.Reply(c, rec, q)
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

// plan says what a request would ask.
func (ep *Endpoint) plan(r *http.Request) (p web.Plan, err error) {
	q, err := ep.Parse(r)
	if err != nil {
		return p, err
	}
	asked, pinned, err := ep.Forecast(r, &q.Query)
	if err != nil || ep.Class == blocks.Never {
		return p, err
	}
	p = web.Plan{Route: ep.Name, Class: string(ep.Class), Asks: "the node for " + q.Path, Origin: "the node", Query: asked}
	if q.RawQuery != "" {
		p.Asks += "?" + q.RawQuery
	}
	if pinned > 0 {
		p.Class, p.Asks = "pinned", fmt.Sprintf("%s at block %d", p.Asks, pinned)
	}
	return p, nil
}

// feed is the request's answer as streams follow it.
func (ep *Endpoint) feed(r *http.Request) (web.Feed, error) {
	q, err := ep.Parse(r)
	if err != nil {
		return web.Feed{}, err
	}
	return ep.Feed(r, &q.Query)
}
