package cosmos

import (
	"cmp"
	"encoding/base64"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// txs begins the paths about transactions.
const txs = "/cosmos/tx/v1beta1"

// broadcastPath sends a transaction to the mempool. Nodes ignore a height that the request names.
const broadcastPath = txs + "/txs"

// posts are the paths that accept POST. Their responses are not cached.
var posts = []post{
	{path: broadcastPath, name: "tx_broadcast"}, {path: txs + "/simulate", name: "tx_simulate"},
	{path: txs + "/decode", name: "tx_decode"}, {path: txs + "/encode", name: "tx_encode"},
	{path: txs + "/decode/amino", name: "tx_decode_amino"}, {path: txs + "/encode/amino", name: "tx_encode_amino"},
	{path: "/ibc/core/client/v1/verify_membership", name: "ibc_verify_membership", reads: true},
}

// A post passes the bodies that clients post to a path on to a node, when a body is complete and it is the client's turn.
// Transactions to broadcast are sent once.
type post struct {
	h          *Handler
	path, name string
	reads      bool         // it reads the state at a height and runs no transaction, so it takes no turn of chain.post_rate
	kind       *blocks.Kind // live if it reads; of others, which wait for no session, never
}

func (p *post) serve(from *web.Request) error {
	if isForm(from.Header.Get("Content-Type")) { // the node takes it for a GET
		return errNotImplemented
	}
	held := p.h.Reader.Stack.HoldBody(&from.Record.Client)
	defer held.Release()
	body, err := held.ReadRequest(from.Writer, from.Request, p.h.posting.MaxBody)
	if err != nil {
		return failure.OfBody(err)
	}
	client := from.Record.Client.Name()
	ctx := p.h.Reader.Stack.WithDeadline(from)
	defer ctx.Release()
	r := node.Request{Path: p.path, Height: node.AtTip, Unpinned: true, Cost: node.Page, Client: client, OneNode: !p.reads,
		Post: &node.Post{Body: body, Type: respond.JSON, Reads: p.path != broadcastPath}}
	var hs web.Heights
	if p.path != broadcastPath {
		if hs, err = p.h.ReadHeights(from); err != nil {
			return err
		}
		r.Height, r.Unpinned = cmp.Or(hs.Pinned, node.AtTip), hs.Pinned == 0 && !p.reads
		if _, err = p.h.Reader.AwaitBlock(ctx, from, &blocks.Read{Kind: p.kind, Heights: hs}); err != nil {
			return err
		}
	}
	if !p.reads {
		if err := p.h.posting.Acquire(ctx, client); err != nil {
			return err
		}
	}
	a, err := p.h.Reader.Nodes.Fetch(ctx, r)
	if err == nil && a.Reason == node.Ambiguous && r.Unpinned && p.path != broadcastPath { // perhaps the node has just started and cannot read its latest state: read at the tip
		r.Unpinned = false
		a, err = p.h.Reader.Nodes.Fetch(ctx, r)
	}
	if err == nil {
		err = p.h.Reader.CheckHeight(a.Height, hs.Min)
	}
	if err != nil {
		return blocks.OfBroadcast(err, transactionIn(body), broadcastPath+"/%X?wait=20s")
	}
	from.Record.Blameless = a.Reason != node.Other // errors of a transaction are caused by the client
	header := from.ResponseHeader
	header.Set("Cache-Status", "tipcache; fwd=bypass")
	if a.Height > 0 && a.Reason != node.Pruned && a.Reason != node.FutureHeight {
		respond.SetHeight(header, a.Height, p.h.headers(a.NodeStatus))
	}
	from.Send(a.NodeStatus, a.Type, a.Body)
	return nil
}

// isForm reports whether the value of a Content-Type header names a URL-encoded form. Parameters may follow the name.
func isForm(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/x-www-form-urlencoded")
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == ';')
}

// transactionIn returns the transaction in the body of a broadcast; nil for none.
func transactionIn(body []byte) []byte {
	members := gjson.GetManyBytes(body, "tx_bytes", "txBytes")
	canonical, ok := data(cmp.Or(members[0].Str, members[1].Str))
	tx, err := base64.URLEncoding.DecodeString(canonical)
	if !ok || err != nil || len(tx) == 0 {
		return nil
	}
	return tx
}
