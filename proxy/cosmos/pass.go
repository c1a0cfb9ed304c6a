package cosmos

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/node"
)

// posts are the paths that take a POST. Nothing of them is kept.
var posts = map[string]string{
	txs + "/txs": "tx_broadcast", txs + "/simulate": "tx_simulate",
	txs + "/decode": "tx_decode", txs + "/encode": "tx_encode",
	txs + "/decode/amino": "tx_decode_amino", txs + "/encode/amino": "tx_encode_amino",
}

// A post sends on what clients post to a path: nothing of them but the body, and that once, when it has
// come and it is its client's turn.
type post struct {
	*Handler
	path string
}

func (p *post) serve(c *gin.Context, rec *record.Record) error {
	if c.ContentType() == gin.MIMEPOSTForm { // the node takes it for a GET
		return errNotImplemented
	}
	held := p.Stack.HoldBody(c.Request, rec.Client.Key.Name)
	defer held.Release()
	body, err := held.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, p.maxBody), p.maxBody)
	if err != nil {
		return failure.OfBody(err, "the body is larger than this server passes on")
	}
	client := p.Stack.Client(c.Request, rec)
	ctx := p.Deadline(c.Request, rec)
	defer ctx.Release()
	if err := p.posting.Acquire(ctx, client); err != nil {
		return err
	}
	r := node.Request{Path: p.path, Height: node.AtTip, Unpinned: true, Cost: node.Page, Client: client,
		Post: &node.Post{Body: body, Type: respond.JSON}}
	a, err := p.Nodes.Fetch(ctx, r)
	if err == nil && a.Reason == node.Ambiguous && p.path != txs+"/txs" { // it reads the state, of a node that has just started
		r.Unpinned = false
		a, err = p.Nodes.Fetch(ctx, r)
	}
	if err != nil {
		return err
	}
	rec.Blameless = a.Reason != node.Other // what is posted is the client's, and so are the errors that it runs into
	p.send(c, a)
	return nil
}

// send writes a node's answer that is not kept, with the heights that it tells.
func (h *Handler) send(c *gin.Context, a *node.Answer) {
	header := c.Writer.Header()
	header.Set("Cache-Status", "tipcache; fwd=bypass")
	if a.Height > 0 && a.Reason != node.Pruned && a.Reason != node.FutureHeight {
		respond.SetHeight(header, a.Height, h.lines(a.NodeStatus))
	}
	respond.Send(c.Writer, c.Request, a.NodeStatus, a.Type, a.Body)
}
