package rpc

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
)

// Plan says what a request would ask: a URI, or for the path / the one call of a body.
func (d *Handler) Plan(r *http.Request, body string) (p web.Plan, err error) {
	hs, err := blocks.HeightRules{}.Read(r)
	if err != nil {
		return p, err
	}
	name := strings.Trim(r.URL.Path, "/")
	var k *asking
	if name != "" {
		if m := methods[name]; m != nil && !(m.own && d.o.NoOwn) {
			k = d.askURI(m, r, hs)
		}
	} else {
		one, err := jsonrpc.Read([]byte(body))
		if err != nil {
			return p, web.BadInput("expected the path of a URI, or a body of one call, as {\"method\":\"status\",\"params\":{}}")
		}
		name = one.Method
		k, _ = d.ask(one, hs)
	}
	if k == nil {
		return p, web.BadInput("%s is no method of the RPC that is served with these parameters%s", web.Short(name), web.DidYouMean(name, slices.Collect(maps.Keys(methods))))
	}
	q := k.plan()
	if q.Kind.Class == blocks.Never {
		return p, nil
	}
	p, _, err = d.reader.Forecast(r, q, web.Plan{Route: routeOf(name), Origin: "the node", Asks: fmt.Sprintf("the node for %s %s", name, k.m.object(k.a))})
	return p, err
}

// Select selects what is kept for a method by its name in metrics, as in "rpc block". It is not ok
// where there is no such method, or nothing of it is kept.
func Select(route string) (all []cache.Selection, ok bool) {
	name, ours := strings.CutPrefix(route, "rpc ")
	m := methods[name]
	if !ours || m == nil || m.class == blocks.Never {
		return nil, false
	}
	all = []cache.Selection{{Path: m.path()}}
	if name == abciQuery {
		all = append(all, state.Select(""))
	}
	return all, true
}
