package rpc

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/unindexed"
	"github.com/tipcache/tipcache/upstream/node"
)

// complete is what came of asking the nodes, or the answer that has transactions which they do not
// find, or cannot be asked for.
func (o *origin) complete(a *node.Answer, err error) (*node.Answer, error) {
	if o.target != "" || o.unread != nil {
		return a, err
	}
	if o.m.name == abciQuery {
		return o.completeValue(a, err)
	}
	result := o.unfound(a, err)
	if result == nil {
		return a, err
	}
	return &node.Answer{Reason: node.OK, Status: http.StatusOK, NodeStatus: http.StatusOK, Body: fmt.Appendf(nil, `"result":%s`, result)}, nil
}

// unfound is the result that has transactions which the nodes do not give; nil for none.
func (o *origin) unfound(a *node.Answer, err error) []byte {
	refused := func(why string) bool {
		return err != nil || a.Reason != node.OK && strings.Contains(a.Text+string(a.Body), why)
	}
	text := func(name string) string { return unquoted(o.a.of(o.m, name)) }
	prove := string(o.a.of(o.m, "prove")) == "true"
	switch {
	case o.m.name == "tx" && refused("not found"):
		hash, _ := base64.StdEncoding.DecodeString(text("hash")) // it was read
		if tx := o.o.State.Unindexed.ByHash(hash); tx != nil {
			return unindexed.Result(tx, prove)
		}
	case o.m.name == "tx_search" && (refused("page should be within [1, 1] range") || strings.HasPrefix(string(a.Body), `"result":{"txs":[],`)):
		page := unindexed.Page{Number: number(o.a.of(o.m, "page")), Size: number(o.a.of(o.m, "per_page")), Descending: text("order_by") == "desc"}
		if page.Size <= 0 {
			page.Size = defaultPage
		}
		all := o.o.State.Unindexed.Search(text("query"))
		if part, ok := page.Of(all); ok {
			return unindexed.SearchResult(part, len(all), prove)
		}
	}
	return nil
}

// defaultPage is how many transactions a page has where it is not told.
const defaultPage = 30

// completeValue does the same for abci_query.
func (o *origin) completeValue(a *node.Answer, err error) (*node.Answer, error) {
	b, err := o.values.Complete(state.Request{Method: unquoted(o.a.of(o.m, "path")), Message: o.message()}, a, err)
	if err == nil && b.Type == node.MessageType {
		c := *b
		c.Type, c.Body = "", state.MemberOf(b.Body, max(number(o.a.of(o.m, "height")), b.Height))
		return &c, nil
	}
	return b, err
}
