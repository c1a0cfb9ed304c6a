package dialect

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An Endpoint serves the requests of one row, in any dialect.
type Endpoint struct {
	table *Table
	*Parser
	Kind  *blocks.Kind
	Route web.Route
	Page  func(q *blocks.Read, v Values) (Values, error) // reads the parameters of a page; nil leaves them unchanged

	latest   *blocks.Kind // of requests of class block that name no block
	unpinned bool         // the node always reads the newest block, because CometBFT answers
	source   blocks.Source
}

func (ep *Endpoint) serve(r *web.Request) error {
	q, err := ep.Parse(r)
	switch {
	case err != nil:
		return err
	case ep.Row.Class == blocks.Never:
		return ep.Pass(r, q)
	}
	return ep.table.Reader.Serve(r, q)
}

// Parse reads a request.
func (ep *Endpoint) Parse(r *web.Request) (*blocks.Read, error) {
	if ep.table.Options.NoBody && hasBody(r.Request) {
		return nil, failure.BadInput("a %s request takes no body", r.Method)
	}
	hs, err := ep.table.Options.Heights.Read(r)
	if err != nil {
		return nil, err
	}
	if ep.unpinned {
		hs.Pinned = 0
	}
	q := &blocks.Read{Kind: ep.Kind, Source: ep.source, Ask: node.Request{Cost: ep.Row.Cost}, Heights: hs}
	return q, ep.canonicalize(q, r.URL)
}

// canonicalize sets the key and the request to the node, in canonical form. A request that it cannot read stays as it was sent
// if the node is a gateway, and is refused otherwise.
func (ep *Endpoint) canonicalize(q *blocks.Read, u *url.URL) (err error) {
	var values Values
	if q.Ask.Path, err = ep.ReadPath(u.Path); err == nil && u.RawQuery != "" {
		values, err = ep.readQuery(q, u.RawQuery)
	}
	if ep.Row.Class == blocks.Block && (err != nil || !ep.namesBlock(q.Ask.Path, values)) {
		q.Kind = ep.latest
	}
	switch {
	case err == nil:
		setKey(q, ep.table.Options.Prefix, values)
	case ep.manner == Gateway:
		ep.keepVerbatim(q, u)
	default:
		return err
	}
	return nil
}

// setKey sets the key and the query to the node.
func setKey(q *blocks.Read, prefix string, v Values) {
	var buf [256]byte
	text := AppendPath(append(buf[:0], prefix...), q.Ask.Path)
	end := len(text)
	if len(v) > 0 {
		text = v.Append(append(text, '?'))
	}
	q.Key = string(text)
	q.Ask.Query = strings.TrimPrefix(q.Key[end:], "?")
}

// Pass serves a request that was admitted and parsed, without the cache.
func (ep *Endpoint) Pass(r *web.Request, q *blocks.Read) error {
	ctx := ep.table.Reader.Stack.WithDeadline(r)
	defer ctx.Release()
	if _, err := ep.table.Reader.AwaitBlock(ctx, r, q); err != nil {
		return err
	}
	ask := q.Ask
	ask.Height, ask.Unpinned, ask.Client = cmp.Or(q.Pinned, node.AtTip), q.Pinned == 0, r.Record.Client.Name()
	a, err := q.Source.Ask(ctx, q, ask, nil)
	if err == nil {
		err = ep.table.Reader.CheckHeight(a.Height, q.Min)
	}
	if err != nil {
		return err
	}
	e, err := q.Source.Entry(q, a, nil)
	if err != nil {
		return err
	}
	r.Record.Blameless = !e.Failed
	header := r.ResponseHeader
	header.Set("Cache-Status", "tipcache; fwd=bypass")
	if ep.Kind.Headers != nil && a.Height > 0 && a.Reason != node.Pruned && a.Reason != node.FutureHeight {
		if more := ep.Kind.Headers(e, q.Key); !more.NoHeight {
			respond.SetHeight(header, a.Height, more.Extra)
		}
	}
	r.Send(e.Status, e.Type, e.Body)
	return nil
}

// hasBody reports whether a request has a body, or one that does not arrive in time. Nodes let a body override the query
// of some paths; here nothing reads it.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 || r.Body == nil {
		return r.ContentLength > 0
	}
	_, err := io.ReadFull(r.Body, make([]byte, 1)) // chunked, so perhaps empty
	return err != io.EOF
}

func (ep *Endpoint) plan(r *web.Request) (p web.Plan, err error) {
	q, err := ep.Parse(r)
	if err != nil {
		return p, err
	}
	plan, pinned, err := ep.table.Reader.Forecast(r, q, web.Plan{Route: ep.Row.Name, Asks: "the node for " + q.Ask.Path, Origin: "the node"})
	if err != nil || ep.Row.Class == blocks.Never {
		return p, err
	}
	if q.Ask.Query != "" {
		plan.Asks += "?" + q.Ask.Query
	}
	plan.Ignored = ep.ignored(r.URL.RawQuery)
	if pinned > 0 {
		plan.Asks = fmt.Sprintf("%s at block %d", plan.Asks, pinned)
	}
	return plan, nil
}

func (ep *Endpoint) feed(r *web.Request) (web.Feed, error) {
	q, err := ep.Parse(r)
	if err != nil {
		return web.Feed{}, err
	}
	return ep.table.Reader.Feed(r, q)
}
