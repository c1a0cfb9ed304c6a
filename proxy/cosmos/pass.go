package cosmos

import (
	"cmp"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// pass asks the node what is never kept.
func (ep *endpoint) pass(c *gin.Context, rec *web.Record, q *dialect.Question) error {
	ctx := ep.Deadline(c.Request, rec)
	defer ctx.Release()
	if _, err := ep.AwaitBlock(ctx, c.Request, rec, &q.Query); err != nil {
		return err
	}
	a, err := q.Origin.Fetch(ctx, node.Request{
		Height: cmp.Or(q.Pinned, node.AtTip), Unpinned: q.Pinned == 0, Cost: ep.Cost, Client: ep.Stack.Client(c.Request, rec),
	}, nil)
	if err != nil {
		return err
	}
	rec.Blameless = !failed(a)
	ep.h.send(c, a)
	return nil
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
