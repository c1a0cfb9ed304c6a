package cosmos

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/unindexed"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/node"
)

// complete is what came of asking the nodes, or the answer that has transactions which they do not
// find. A node that has their block decodes them.
func (ep *endpoint) complete(ctx context.Context, q *dialect.Question, r node.Request, a *node.Answer, err error) (*node.Answer, error) {
	part, all := ep.unfound(q, a, err)
	if len(part) == 0 {
		return a, err
	}
	decoded := ep.decoded(ctx, r, part[0])
	if decoded == nil {
		return a, err
	}
	var body []byte
	of := func(tx *events.Transaction) string { return decoded[tx.Index].Raw }
	if ep.Name == "tx" {
		body = unindexed.JSON(part[0], of(part[0]))
	} else {
		body = unindexed.SearchJSON(part, all, of)
	}
	return &node.Answer{Reason: node.OK, Status: http.StatusOK, NodeStatus: http.StatusOK, Height: ep.Nodes.Tip().Height, Type: web.JSON, Body: body}, nil
}

// unfound are the transactions that a node was asked for and does not give, of so many in all.
func (ep *endpoint) unfound(q *dialect.Question, a *node.Answer, err error) (part []*events.Transaction, all int) {
	switch ep.Name {
	case "tx":
		if err == nil && a.Reason == node.OK {
			return nil, 0
		}
		hash, _ := hex.DecodeString(path.Base(q.Path)) // what is none has no transaction
		if tx := ep.h.unindexed.ByHash(hash); tx != nil {
			return []*events.Transaction{tx}, 1
		}
	case "tx_search":
		if err == nil && a.Reason == node.OK && gjson.GetBytes(a.Body, "tx_responses.0").Exists() {
			return nil, 0
		}
		asked, _ := url.ParseQuery(q.RawQuery) // it was read
		number := func(name string) int64 { n, _ := strconv.ParseInt(asked.Get(name), 0, 64); return n }
		found := ep.h.unindexed.Search(cmp.Or(asked.Get("query"), strings.Join(asked["events"], " AND ")))
		part, _ = unindexed.Page{Number: number("page"), Size: cmp.Or(number("limit"), defaultSearch), Descending: asked.Get("order_by") == "2"}.Of(found)
		return part, len(found)
	}
	return nil, 0
}

// defaultSearch is how many transactions a search finds where it is not told.
const defaultSearch = 100

// decoded are all transactions of a block as a node writes them; nil where none does.
func (ep *endpoint) decoded(ctx context.Context, r node.Request, tx *events.Transaction) []gjson.Result {
	r.Path, r.Query = fmt.Sprintf("%s/txs/block/%d", txs, tx.Height), fmt.Sprintf("pagination.limit=%d", len(tx.Block))
	r.Unpinned, r.Height, r.Cost = true, node.AtTip, node.Page
	a, err := ep.Nodes.Fetch(ctx, r)
	if err != nil || a.Reason != node.OK {
		return nil
	}
	decoded := gjson.GetBytes(a.Body, "txs").Array()
	if len(decoded) != len(tx.Block) {
		return nil
	}
	return decoded
}
