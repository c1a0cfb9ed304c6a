package cosmos

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// pass asks the node what is never kept.
func (ep *endpoint) pass(c *gin.Context, rec *web.Record) error {
	if err := ep.Admit(c, rec); err != nil {
		return err
	}
	q := ep.index.ask(c.Request.URL.Path, c.Request.URL.RawQuery)
	hs, err := readHeights(c.Request.Header)
	if err != nil {
		return ep.refuse(c, rec, err)
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), ep.timeout(rec))
	defer cancel()
	tip, err := ep.Settle(ctx, c.Request, rec, hs.min)
	rec.Tip, rec.Pinned = tip.Height, hs.pinned > 0
	if err != nil {
		return err
	}
	r := node.Request{Path: q.path, Query: q.query, Height: hs.pinned, Cost: ep.row.Cost, Client: ep.stack.Client(c.Request, rec)}
	if r.Height == 0 {
		r.Height, r.Unpinned = node.AtTip, true
	}
	a, err := ep.fetch(ctx, r)
	if err != nil {
		return err
	}
	ep.send(c, a)
	return nil
}

// timeout is what is left of the time of a request.
func (h *Handler) timeout(rec *web.Record) time.Duration {
	return time.Until(h.stack.Deadline(rec.Start))
}

// send writes a node's answer that is not kept, with the heights that it tells.
func (h *Handler) send(c *gin.Context, a *node.Answer) {
	header := c.Writer.Header()
	header.Set("Cache-Status", "tipcache; fwd=bypass")
	if a.Height > 0 && a.Reason != node.Pruned && a.Reason != node.FutureHeight {
		web.SetHeight(header, a.Height, h.lines(a.NodeStatus))
	}
	web.Send(c.Writer, c.Request, a.NodeStatus, a.Type, a.Body)
}

// A post sends on what clients post to a path: nothing of them but the body, and that once.
type post struct {
	*Handler
	path string
}

func (p *post) serve(c *gin.Context, rec *web.Record) error {
	if err := p.Admit(c, rec); err != nil {
		return err
	}
	if c.ContentType() == gin.MIMEPOSTForm { // the node takes it for a GET
		return errNotImplemented
	}
	if !p.posting.Allow() {
		return &web.Failure{Status: http.StatusTooManyRequests, RetryAfter: time.Second, Expected: true, Public: "too many transactions are sent through this server at present"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, p.o.Posts.MaxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &web.Failure{Status: http.StatusRequestEntityTooLarge, Expected: true, Public: "the body is larger than this server passes on"}
	}
	if err != nil {
		return web.BadInput("the body did not arrive whole")
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), p.timeout(rec))
	defer cancel()
	r := node.Request{Path: p.path, Height: node.AtTip, Unpinned: true, Cost: node.Page, Client: p.stack.Client(c.Request, rec),
		Post: &node.Post{Body: body, Type: web.JSON}}
	a, err := p.o.Chain.Nodes.Fetch(ctx, r)
	if err == nil && a.Reason == node.Unread && p.path != txs+"/txs" { // it reads the state, of a node that has just started
		r.Unpinned = false
		a, err = p.o.Chain.Nodes.Fetch(ctx, r)
	}
	if err != nil {
		return err
	}
	p.send(c, a)
	return nil
}
