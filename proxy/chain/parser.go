package chain

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// LargePage is the page size from which on a page weighs on the node as much
// as a read of the whole set.
const LargePage = 1000

// A parser reads the requests of one route. It is compiled once from the route's
// row.
type parser struct {
	*Handler
	Route
	pattern Pattern
	path    []parameter // of the pattern's segments; none of a literal
	queried []parameter // all but those of a page that the shape knows
	names   []string    // of all that is read from the query: queried, then those of a page
	kind    *blocks.Kind
	good    goodInputs
}

// A question is a Question to a node of Story, and its origin.
type question struct {
	Question
	*parser
	limit   uint64 // of a page of a list; 0 for the node's default
	reverse bool   // the list from its end
}

func newParser(h *Handler, rt Route, pattern Pattern) *parser {
	p := &parser{Handler: h, Route: rt, pattern: pattern, path: make([]parameter, len(pattern))}
	for i, s := range pattern {
		if s.Literal == "" {
			p.path[i] = parameter{s.Name, h.typeOf(s.Name, sentSegment)}
		}
	}
	for _, name := range strings.Fields(rt.Query) {
		if name == Pagination {
			p.names = append(p.names, PageNames[:]...)
			continue
		}
		p.names = append(p.names, name)
	}
	for _, name := range p.names {
		if h.asSent || !slices.Contains(PageNames[:], name) {
			p.queried = append(p.queried, parameter{name, h.typeOf(name, anyText)})
		}
	}
	return p
}

// maxParameters is the most that any route reads from the query.
const maxParameters = len(PageNames) + 3

// A given is a value of a parameter, as the query has it.
type given struct {
	text string
	set  bool
}

// parse reads what a request asks for.
func (p *parser) parse(r *http.Request) (*Question, error) {
	if hasBody(r) {
		return nil, web.BadInput("a %s request takes no body", r.Method)
	}
	q := &question{parser: p}
	q.Kind, q.Origin, q.Cost = p.kind, q, p.Cost
	if err := readHeights(&q.Heights, r, p.asSent); err != nil {
		return nil, err
	}
	if err := p.read(q, r.URL.Path, r.URL.RawQuery); err != nil {
		return nil, err
	}
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

// readHeights reads the headers and parameters that name blocks. The header of the height to
// read at is read as the node reads it where requests go to the node asSent.
func readHeights(h *blocks.Heights, r *http.Request, asSent bool) (err error) {
	header := r.Header
	if h.Min, err = web.ReadBlock(web.MinHeightHeader, header[web.MinHeightHeader]); err != nil {
		return err
	}
	if h.EVM, err = web.ReadBlock(web.MinEVMHeader, header[web.MinEVMHeader]); err != nil {
		return err
	}
	if asSent {
		h.Pinned, err = nodeHeight(header[web.HeightHeader])
	} else {
		h.Pinned, err = web.ReadBlock(web.HeightHeader, header[web.HeightHeader])
	}
	if err == nil {
		err = h.ReadURL(r)
	}
	if err == nil && !asSent && h.Pinned > 0 && h.Min > h.Pinned {
		return web.BadInput("%s is above %s: no answer can be both", web.MinHeightHeader, web.HeightHeader)
	}
	return err
}

// nodeHeight reads a height as the node does.
func nodeHeight(values []string) (int64, error) {
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

// rooms are where keys are put together.
var rooms = sync.Pool{New: func() any { return new([256]byte) }}

// read makes the canonical form of a request.
func (p *parser) read(q *question, path, rawQuery string) error {
	room := rooms.Get().(*[256]byte) //nolint:forcetypeassert // the pool has no others
	defer rooms.Put(room)
	text, err := p.appendPath(append(room[:0], p.prefix...), path)
	if err != nil {
		return err
	}
	pathEnd := len(text)
	if rawQuery != "" && len(p.names) > 0 {
		if text, err = p.appendQuery(q, text, rawQuery); err != nil {
			return err
		}
	}
	q.Key = string(text)
	q.Path = q.Key[len(p.prefix):pathEnd]
	q.RawQuery = strings.TrimPrefix(q.Key[pathEnd:], "?")
	return nil
}

func (p *parser) appendPath(text []byte, path string) ([]byte, error) {
	for i, seg := range p.pattern {
		value, _, _ := strings.Cut(path[1:], "/")
		path = path[1+len(value):]
		text = append(append(text, '/'), seg.Literal...)
		if seg.Literal != "" {
			continue
		}
		param := &p.path[i]
		var ok bool
		if value == "." || value == ".." { // segments that stand for another path
			return nil, &web.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(string(text[len(p.prefix):])+value)}
		}
		if text, ok = param.canonical(text, value); !ok {
			return nil, malformed(param.name, value, param.expects)
		}
	}
	return text, nil
}

func (p *parser) appendQuery(q *question, text []byte, rawQuery string) ([]byte, error) {
	var v [maxParameters]given
	if err := p.scan(q, &v, rawQuery); err != nil {
		return nil, err
	}
	w := queryWriter{text: text, path: len(text)}
	for i, param := range p.queried {
		if !v[i].set || v[i].text == "" && !p.asSent {
			continue
		}
		var ok bool
		w = w.name(param.name)
		if w.text, ok = param.canonical(w.text, v[i].text); !ok {
			return nil, malformed(param.name, v[i].text, param.expects)
		}
	}
	if p.page == nil {
		return w.text, nil
	}
	return p.appendPage(q, w, v[len(p.names)-len(PageNames):])
}

// appendPage writes what is asked of a list, where the shape reads it.
func (p *parser) appendPage(q *question, w queryWriter, v []given) (_ []byte, err error) {
	if p.asSent {
		if limit, _ := strconv.ParseUint(v[2].text, 10, 64); limit > LargePage {
			q.Cost = node.Scan
		}
		return w.text, nil
	}
	if key := &v[0].text; strings.HasPrefix(*key, walkKeyPrefix) {
		walk, err := parseWalkKey(*key, p.Nodes.ChainID(), string(w.text[len(p.prefix):w.path]))
		if err != nil {
			return nil, malformed(PageKey, *key, "the next_key of the page before, as it came")
		}
		q.Walk, *key = walk.Snapshot, walk.raw
	}
	asked, err := parsePage(p.page, v, p.o.MaxPageLimit)
	if err != nil {
		return nil, err
	}
	if q.limit, q.reverse = asked.limit, asked.reverse; q.limit > LargePage {
		q.Cost = node.Scan
	}
	return asked.appendQuery(w).text, nil
}

// scan takes the route's parameters out of a query; of duplicates the first
// counts, and everything else is passed over.
func (p *parser) scan(q *question, v *[maxParameters]given, rawQuery string) error {
	unknown := false
	for pair := range strings.SplitSeq(rawQuery, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		i := p.index(rawName)
		unknown = unknown || i < 0
		if i < 0 || v[i].set || p.asSent && strings.Contains(pair, ";") { // the node drops a pair with a semicolon
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil && !p.asSent {
			return malformed(p.names[i], rawValue, "valid percent-encoding")
		}
		if err == nil { // the node drops what it cannot unescape
			v[i] = given{value, true}
		}
	}
	if unknown && !p.asSent {
		q.Misspelt = p.misspelt(rawQuery)
	}
	return nil
}

// index finds a parameter by its name in a query. The node's names match
// without case and with brackets behind.
func (p *parser) index(rawName string) int {
	name, err := url.QueryUnescape(rawName)
	if err != nil {
		return -1
	}
	if p.asSent {
		name = strings.TrimSuffix(name, "[]")
	}
	for i, known := range p.names {
		if name == known || p.asSent && strings.EqualFold(name, known) {
			return i
		}
	}
	return -1
}
