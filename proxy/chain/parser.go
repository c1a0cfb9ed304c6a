package chain

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A parser reads the requests of one route. It is compiled once from the route's
// row.
type parser struct {
	*Handler
	Route
	reader *dialect.Reader
	kind   *blocks.Kind
	good   goodInputs
}

// A question is a Question to a node of Story, and its origin.
type question struct {
	dialect.Question
	*parser
	limit   uint64 // of a page of a list; 0 for the node's default
	reverse bool   // the list from its end
}

func newParser(h *Handler, rt Route) (p *parser, err error) {
	p = &parser{Handler: h, Route: rt}
	manner, lookup := dialect.Strict, rt.field
	if h.asSent {
		manner, lookup = dialect.Lenient, sentField
	}
	p.reader, err = dialect.NewReader(rt.Row, manner, lookup)
	return p, err
}

// heights are how the blocks that requests name are read.
func (h *Handler) heights() blocks.HeightRules {
	if h.asSent {
		return blocks.HeightRules{EVM: true, Loose: true, Pinned: nodeHeight}
	}
	return blocks.HeightRules{EVM: true}
}

// parse reads what a request asks for.
func (p *parser) parse(r *http.Request) (*dialect.Question, error) {
	if hasBody(r) {
		return nil, web.BadInput("a %s request takes no body", r.Method)
	}
	q := &question{parser: p}
	q.Kind, q.Origin, q.Cost = p.kind, q, p.Cost
	var err error
	if q.Heights, err = p.heights().Read(r); err != nil {
		return nil, err
	}
	path, err := p.reader.ReadPath(r.URL.Path)
	if err != nil {
		return nil, err
	}
	values, unknown, err := p.reader.ReadQuery(r.URL.RawQuery)
	if err == nil && p.page != nil && !p.asSent {
		values, err = p.readPage(q, path, values)
	}
	if err != nil {
		return nil, err
	}
	if unknown && !p.asSent {
		q.Misspelt = p.misspelt(r.URL.RawQuery)
	}
	if values.Large() {
		q.Cost = node.Scan
	}
	q.Spell(p.prefix, path, values)
	return &q.Question, nil
}

// hasBody says whether a request carries a body. The node lets one override
// the query of some paths, and here nothing reads it.
func hasBody(r *http.Request) bool {
	if r.ContentLength == 0 || r.Body == nil {
		return false
	}
	if r.ContentLength > 0 {
		return true
	}
	var one [1]byte // chunked: perhaps empty
	n, _ := io.ReadFull(r.Body, one[:])
	return n > 0
}

// nodeHeight reads the height to read at as the node does.
func nodeHeight(h http.Header) (int64, error) {
	values := h[web.HeightHeader]
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	switch {
	case err != nil:
		return 0, nil //nolint:nilerr // to the node, garbage is no height
	case n < 0:
		return 0, &web.Failure{Status: http.StatusInternalServerError, Expected: true, NullMsg: true, Public: "failed to create query context: cannot query with height < 0; please provide a valid height: invalid request"}
	}
	return n, nil
}

// misspelt names the parameters of a query that the route does not take, but that
// look like one it does. They are ignored, as all that the route does not know; a
// client that meant one of them would not notice.
func (p *parser) misspelt(rawQuery string) string {
	var found []string
	for pair := range strings.SplitSeq(rawQuery, "&") {
		rawName, _, _ := strings.Cut(pair, "=")
		if rawName == "" || p.reader.Names(rawName) {
			continue
		}
		name, err := url.QueryUnescape(rawName)
		if err != nil || !isParameterName(name) {
			continue
		}
		if meant := p.nearest(name); meant != "" {
			found = append(found, name+" (did you mean "+meant+"?)")
		}
	}
	return strings.Join(found, ", ")
}

// nearest is the parameter whose last word the name is, or which it differs from
// by a slip or two; "" for none.
func (p *parser) nearest(name string) string {
	name = strings.ToLower(name)
	for i := range p.reader.Fields {
		known := p.reader.Fields[i].Name
		_, last, _ := strings.Cut(known, ".")
		most := min(2, len(known)/3)
		if name == last || levenshtein.ComputeDistance(name, known) <= most || last != "" && levenshtein.ComputeDistance(name, last) <= min(1, len(last)/4) {
			return known
		}
	}
	return ""
}

// isParameterName keeps out of a header what does not belong there.
func isParameterName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return len(name) <= 40 && strings.Trim(name, allowed) == ""
}
