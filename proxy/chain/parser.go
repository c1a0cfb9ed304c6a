package chain

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// largePage is the page size from which on a page weighs on the node as much
// as a read of the whole set.
const largePage = 1000

// A requestParser reads the requests of one route. It is compiled once from the
// route's row.
type requestParser struct {
	Route
	path     []segment
	queried  []parameter
	names    []string // of all that is read from the query: queried, then PageNames
	maxLimit uint64
	prefix   string // of keys: the shape, so that none is served as the other
	chainID  func() string
	asSent   bool // the node's shape: values go to the node as they came
}

// A segment is a piece of a path: literal text, then perhaps a parameter.
type segment struct {
	literal string
	param   *parameter
}

func newRequestParser(rt Route, o *Options) *requestParser {
	p := &requestParser{Route: rt, maxLimit: o.MaxPageLimit, prefix: string(o.Shape), asSent: o.Shape == Node, chainID: o.Nodes.ChainID}
	literal := ""
	for part := range strings.SplitSeq(rt.Pattern[1:], "/") {
		literal += "/"
		if name, isParam := strings.CutPrefix(part, ":"); isParam {
			p.path = append(p.path, segment{literal, &parameter{name, paramTypes[name]}})
			literal = ""
		} else {
			literal += part
		}
	}
	p.path = append(p.path, segment{literal: literal})
	for _, name := range rt.Query {
		p.queried = append(p.queried, parameter{name, paramTypes[name]})
		p.names = append(p.names, name)
	}
	if rt.page != nil {
		p.names = append(p.names, PageNames[:]...)
	}
	return p
}

// A cacheRequest is a request reduced to what its answer depends on. Requests
// for the same have equal ones, however they were spelled.
type cacheRequest struct {
	key    string // canonical path and query, behind the shape; @ and the height if there is one
	path   string // of the key, percent-encoded: what the node is asked
	query  string
	page   page    // what is asked of a list
	walk   walkKey // what the page key said besides; zero where it is the node's own
	height int64   // block to be read at; 0 for the newest
	cost   node.Cost

	unknown bool // it has parameters that the route does not take, which change nothing
}

// maxParameters is the most that any route reads from the query.
const maxParameters = len(PageNames) + 3

// values are the parameters read from a query, in the order of requestParser.names.
type values [maxParameters]struct {
	text string
	set  bool
}

// rooms are where keys are put together.
var rooms = sync.Pool{New: func() any { return new([256]byte) }}

// read makes the canonical form of a request.
func (p *requestParser) read(path gin.Params, rawQuery string, height int64) (cacheRequest, error) {
	room := rooms.Get().(*[256]byte) //nolint:forcetypeassert // the pool has no others
	defer rooms.Put(room)
	q := cacheRequest{height: height, cost: p.cost}
	text, err := p.appendPath(append(room[:0], p.prefix...), path)
	if err != nil {
		return q, err
	}
	pathEnd := len(text)
	if rawQuery != "" && len(p.names) > 0 {
		if text, err = p.appendQuery(&q, text, rawQuery); err != nil {
			return q, err
		}
	}
	queryEnd := len(text)
	if height > 0 {
		text = strconv.AppendInt(append(text, '@'), height, 10)
	}
	q.key = string(text)
	q.path = q.key[len(p.prefix):pathEnd]
	q.query = strings.TrimPrefix(q.key[pathEnd:queryEnd], "?")
	return q, nil
}

func (p *requestParser) appendPath(text []byte, path gin.Params) ([]byte, error) {
	for i, seg := range p.path {
		text = append(text, seg.literal...)
		if seg.param == nil {
			continue
		}
		if path[i].Value == "." || path[i].Value == ".." { // segments that stand for another path
			return nil, &web.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(string(text)+path[i].Value)}
		}
		var ok bool
		if p.asSent {
			if text, ok = appendAsSent(text, path[i].Value); !ok {
				return nil, tooLong(seg.param.name, path[i].Value)
			}
			continue
		}
		if text, ok = seg.param.canonical(text, path[i].Value); !ok {
			return nil, malformed(seg.param.name, path[i].Value, seg.param.expects)
		}
	}
	return text, nil
}

func (p *requestParser) appendQuery(q *cacheRequest, text []byte, rawQuery string) ([]byte, error) {
	var v values
	if err := p.scan(q, &v, rawQuery); err != nil {
		return nil, err
	}
	w := queryWriter{text: text, path: len(text)}
	if p.asSent {
		return p.appendAsSent(q, w, &v)
	}
	for i, param := range p.queried {
		if v[i].text == "" {
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
	return p.appendPage(q, w, &v)
}

func (p *requestParser) appendPage(q *cacheRequest, w queryWriter, v *values) ([]byte, error) {
	var asked [len(PageNames)]string
	for i := range asked {
		asked[i] = v[len(p.queried)+i].text
	}
	var err error
	if isWalkKey(asked[0]) {
		if q.walk, err = parseWalkKey(asked[0], p.chainID(), string(w.text[len(p.prefix):w.path])); err != nil {
			return nil, malformed(PageKey, asked[0], "the next_key of the page before, as it came")
		}
		asked[0] = q.walk.raw
	}
	if q.page, err = parsePage(p.page, asked, p.maxLimit); err != nil {
		return nil, err
	}
	if q.page.limit > largePage {
		q.cost = node.Scan
	}
	return q.page.appendQuery(w).text, nil
}

// appendAsSent keeps the values, empty ones too, under the route's names.
func (p *requestParser) appendAsSent(q *cacheRequest, w queryWriter, v *values) ([]byte, error) {
	for i, name := range p.names {
		if !v[i].set {
			continue
		}
		var ok bool
		w = w.name(name)
		if w.text, ok = appendText(w.text, v[i].text); !ok {
			return nil, tooLong(name, v[i].text)
		}
		if limit, _ := strconv.ParseUint(v[i].text, 10, 64); name == PageLimit && limit > largePage {
			q.cost = node.Scan
		}
	}
	return w.text, nil
}

// scan takes the route's parameters out of a query; of duplicates the first
// counts, and everything else is passed over.
func (p *requestParser) scan(q *cacheRequest, v *values, rawQuery string) error {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		i := p.index(rawName)
		q.unknown = q.unknown || i < 0
		if i < 0 || v[i].set || p.asSent && strings.Contains(pair, ";") { // the node drops a pair with a semicolon
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil && !p.asSent {
			return malformed(p.names[i], rawValue, "valid percent-encoding")
		}
		if err == nil { // the node drops what it cannot unescape
			v[i].text, v[i].set = value, true
		}
	}
	return nil
}

// index finds a parameter by its name in a query. The node's names match
// without case and with brackets behind.
func (p *requestParser) index(rawName string) int {
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

// appendAsSent escapes a path value and spells hex in lower case, which is all
// the node does with it.
func appendAsSent(dst []byte, value string) ([]byte, bool) {
	if n := len(value); n >= 2 && n%2 == 0 && isHex(value, n/2-1) {
		return appendLower(dst, value), n <= maxHex
	}
	return appendText(dst, value)
}

// maxHex is the length of an address that a node just refuses, of 256 bytes.
const maxHex = 2 + 2*256

func tooLong(name, value string) error { return malformed(name, value, anyText.expects) }

// malformed names the parameter, shows the beginning of its value and says what
// is expected.
func malformed(name, value, expects string) error {
	return web.BadInput("%s is %q; expected %s", name, web.Short(value), expects)
}
