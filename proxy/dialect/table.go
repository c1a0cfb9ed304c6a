package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options apply to all rows of a dialect.
type Options struct {
	Prefix  string // prefix of cache keys
	Manner  Manner // how nodes read a query
	NoBody  bool   // refuse requests with a body
	Methods []string
	Heights web.HeightRules
	Render  web.Renderer // renders failures
}

// A Table serves the requests of a dialect by its rows.
type Table struct {
	Reader    *blocks.Reader
	Options   Options
	endpoints []*Endpoint // in order
}

// NewTable returns a table without rows.
func NewTable(o Options, r *blocks.Reader) *Table {
	return &Table{Reader: r, Options: o}
}

// Mount adds a row with its kind of reads and their source. Of the rows that match a path, the first one serves it.
func (t *Table) Mount(row Row, lookup Lookup, kind *blocks.Kind, source blocks.Source) (*Endpoint, error) {
	p, err := NewParser(row, t.Options.Manner, lookup)
	if err != nil {
		return nil, err
	}
	kind.Name, kind.Class, kind.ComparedBody = p.Row.Name, p.Row.Class, WithoutNextKey
	ep := &Endpoint{table: t, Parser: p, Kind: t.Reader.Add(kind), source: source, unpinned: p.Row.Class.Fixed() || p.Row.Class == blocks.Latest}
	if p.Row.Class == blocks.Block {
		ep.latest = t.Reader.Add(&blocks.Kind{Name: p.Row.Name + " latest", Class: blocks.Latest, Headers: kind.Headers, ComparedBody: kind.ComparedBody})
	}
	ep.Route = web.Route{Name: p.Row.Name, Pattern: p.Row.Pattern, Methods: t.Options.Methods, Keyed: t.Reader.Keyed(), Serve: ep.serve, Render: t.Options.Render, Plan: ep.plan}
	if p.Row.Class != blocks.Never && p.Row.Class != blocks.Unknown {
		ep.Route.Feed, ep.Route.Waits = ep.feed, p.Row.Class == blocks.Found
	}
	t.endpoints = append(t.endpoints, ep)
	return ep, nil
}

// Routes returns the routes of the rows that a pattern can stand for: of all rows that match one of its paths, its row is the
// first, and it has no variable for the rest of a path.
func (t *Table) Routes() (all []web.Route) {
	for i, ep := range t.endpoints {
		hidden := slices.ContainsFunc(t.endpoints[:i], func(before *Endpoint) bool { return before.pattern.meets(ep.pattern) })
		if !hidden && !ep.pattern.takesRest() {
			all = append(all, ep.Route)
		}
	}
	return all
}

// Route returns the route of a request; false if no row matches its path.
func (t *Table) Route(r *web.Request) (rt web.Route, ok bool) {
	if ep := t.Endpoint(r); ep != nil {
		return ep.Route, true
	}
	return rt, false
}

// Endpoint returns the endpoint of the first row that matches a request's path; nil for none.
func (t *Table) Endpoint(r *web.Request) *Endpoint {
	path := r.URL.Path
	if t.Options.Manner == Gateway {
		path = DropColon(path)
	}
	var buf [maxParts]string
	parts := split(buf[:0], path)
	for _, ep := range t.endpoints {
		if ep.pattern.matches(parts) {
			return ep
		}
	}
	return nil
}

// matches compares the segments of a decoded path, the last one first, in which most rows differ. As on the node, a variable
// may be empty.
func (p pattern) matches(parts []string) bool {
	last := len(p) - 1
	if p[last].Rest && len(parts) > last {
		p, parts = p[:last], parts[:last]
	}
	if len(p) != len(parts) {
		return false
	}
	for i, s := range slices.Backward(p) {
		if s.Literal != "" && s.Literal != parts[i] {
			return false
		}
	}
	return true
}

// meets reports whether a path may match both patterns.
func (p pattern) meets(q pattern) bool {
	for i := range min(len(p), len(q)) {
		if p[i].Rest || q[i].Rest {
			return true
		}
		if p[i].Literal != q[i].Literal && p[i].Literal != "" && q[i].Literal != "" {
			return false
		}
	}
	return len(p) == len(q)
}

// takesRest reports whether the last variable stands for the rest of a path.
func (p pattern) takesRest() bool { return p[len(p)-1].Rest }

// maxParts is the maximum number of segments that a path is split into without an allocation.
const maxParts = 24

func split(parts []string, path string) []string {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		parts = append(parts, part)
	}
	return parts
}

// ReadHeights reads the blocks that a request names.
func (t *Table) ReadHeights(r *web.Request) (web.Heights, error) { return t.Options.Heights.Read(r) }

// SelectRoute selects the keys of one row, including those at a height.
func (t *Table) SelectRoute(name string) (cache.Selection, error) {
	var names []string
	for _, ep := range t.endpoints {
		if ep.Row.Name == name {
			return ep.Row.selection(t.Options.Prefix), nil
		}
		names = append(names, ep.Row.Name)
	}
	return cache.Selection{}, fmt.Errorf("no route is called %q%s", web.Short(name), web.DidYouMean(name, append(names, "collections"))) // the listing belongs to no dialect
}

// MethodRows returns the rows of gRPC methods by the names of the methods. Of several rows of a method, the first one counts. A
// call costs a node as much as a request for the path of its row. It is passed through if the row's class is never.
func MethodRows(tables ...[]Row) map[string]Row {
	rows := map[string]Row{}
	for _, row := range slices.Concat(tables...) {
		if _, known := rows[row.Method]; !known && row.Method != "" {
			rows[row.Method] = row
		}
	}
	return rows
}
