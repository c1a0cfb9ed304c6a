package proxy

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/upstream/node"
)

// A question is a request reduced to what its answer depends on. Requests
// that ask the same have equal questions, however they were spelled.
type question struct {
	key    string // canonical path and query, behind the shape; @ and the height if there is one
	path   string // of the key: what the node is asked
	query  string
	page   page  // what is asked of a list
	height int64 // block to be read at; 0 for the newest
	cost   node.Cost
}

// request is the question as the node is asked it.
func (q question) request() node.Request {
	r := node.Request{Path: q.path, Query: q.query, Height: q.height, Cost: q.cost}
	if r.Height == 0 {
		r.Height = node.AtTip
	}
	return r
}

// largePage is the page size from which on a page weighs on the node as much
// as a read of the whole set.
const largePage = 1000

// A reader reads the questions of one route. It is compiled once from the
// route's row.
type reader struct {
	route
	path     []segment
	queried  []parameter
	names    []string // of all that is read from the query: queried, then pageNames
	maxLimit uint64
	prefix   string // of keys: the shape, so that none is served as the other
	asSent   bool   // the node's shape: values go to the node as they came
}

// A segment is a piece of a path: literal text, then perhaps a parameter.
type segment struct {
	literal string
	param   *parameter
}

func newReader(rt route, shape Shape, maxLimit uint64) *reader {
	rd := &reader{route: rt, maxLimit: maxLimit, prefix: string(shape), asSent: shape == Node}
	literal := ""
	for part := range strings.SplitSeq(rt.pattern[1:], "/") {
		literal += "/"
		if name, isParam := strings.CutPrefix(part, ":"); isParam {
			rd.path = append(rd.path, segment{literal, &parameter{name, vocabulary[name]}})
			literal = ""
		} else {
			literal += part
		}
	}
	rd.path = append(rd.path, segment{literal: literal})
	for _, name := range rt.query {
		rd.queried = append(rd.queried, parameter{name, vocabulary[name]})
		rd.names = append(rd.names, name)
	}
	if rt.page != nil {
		rd.names = append(rd.names, pageNames[:]...)
	}
	return rd
}

// maxParameters is the most that any route reads from the query.
const maxParameters = len(pageNames) + 3

// values are the parameters read from a query, in the order of reader.names.
type values [maxParameters]struct {
	text string
	set  bool
}

// read makes the question of a request.
func (rd *reader) read(path gin.Params, rawQuery string, height int64) (question, error) {
	q := question{height: height, cost: rd.cost}
	text, err := rd.appendPath(append(make([]byte, 0, 160), rd.prefix...), path)
	if err != nil {
		return q, err
	}
	pathEnd := len(text)
	if rawQuery != "" && len(rd.names) > 0 {
		if text, err = rd.appendQuery(&q, text, rawQuery); err != nil {
			return q, err
		}
	}
	queryEnd := len(text)
	if height > 0 {
		text = strconv.AppendInt(append(text, '@'), height, 10)
	}
	q.key = string(text)
	q.path = q.key[len(rd.prefix):pathEnd]
	q.query = strings.TrimPrefix(q.key[pathEnd:queryEnd], "?")
	return q, nil
}

func (rd *reader) appendPath(text []byte, path gin.Params) ([]byte, error) {
	for i, seg := range rd.path {
		text = append(text, seg.literal...)
		if seg.param == nil {
			continue
		}
		if rd.asSent {
			text = appendAsSent(text, path[i].Value)
			continue
		}
		var ok bool
		if text, ok = seg.param.canonical(text, path[i].Value); !ok {
			return nil, malformed(seg.param.name, path[i].Value, seg.param.expects)
		}
	}
	return text, nil
}

func (rd *reader) appendQuery(q *question, text []byte, rawQuery string) ([]byte, error) {
	var v values
	if err := rd.scan(&v, rawQuery); err != nil {
		return nil, err
	}
	w := queryWriter{text: text, path: len(text)}
	if rd.asSent {
		return rd.appendAsSent(q, w, &v), nil
	}
	for i, p := range rd.queried {
		if v[i].text == "" {
			continue
		}
		var ok bool
		w = w.name(p.name)
		if w.text, ok = p.canonical(w.text, v[i].text); !ok {
			return nil, malformed(p.name, v[i].text, p.expects)
		}
	}
	if rd.page == nil {
		return w.text, nil
	}
	return rd.appendPage(q, w, &v)
}

func (rd *reader) appendPage(q *question, w queryWriter, v *values) ([]byte, error) {
	var asked [len(pageNames)]string
	for i := range asked {
		asked[i] = v[len(rd.queried)+i].text
	}
	var err error
	if q.page, err = parsePage(rd.page, asked, rd.maxLimit); err != nil {
		return nil, err
	}
	if q.page.limit > largePage {
		q.cost = node.Scan
	}
	return q.page.appendQuery(w).text, nil
}

// appendAsSent keeps the values, empty ones too, under the route's names.
func (rd *reader) appendAsSent(q *question, w queryWriter, v *values) []byte {
	for i, name := range rd.names {
		if !v[i].set {
			continue
		}
		w = w.name(name)
		w.text = appendEscaped(w.text, v[i].text)
		if limit, _ := strconv.ParseUint(v[i].text, 10, 64); name == limitName && limit > largePage {
			q.cost = node.Scan
		}
	}
	return w.text
}

// scan takes the route's parameters out of a query; of duplicates the first
// counts, and everything else is passed over.
func (rd *reader) scan(v *values, rawQuery string) error {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		i := rd.index(rawName)
		if i < 0 || v[i].set {
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil && !rd.asSent {
			return malformed(rd.names[i], rawValue, "valid percent-encoding")
		}
		if err == nil { // the node drops what it cannot unescape
			v[i].text, v[i].set = value, true
		}
	}
	return nil
}

// index finds a parameter by its name in a query. The node's names match
// without case and with brackets behind.
func (rd *reader) index(rawName string) int {
	name, err := url.QueryUnescape(rawName)
	if err != nil {
		return -1
	}
	if rd.asSent {
		name = strings.TrimSuffix(name, "[]")
	}
	for i, known := range rd.names {
		if name == known || rd.asSent && strings.EqualFold(name, known) {
			return i
		}
	}
	return -1
}

// A queryWriter appends parameters to a path.
type queryWriter struct {
	text []byte
	path int // where the path ends
}

func (w queryWriter) name(name string) queryWriter {
	sep := byte('&')
	if len(w.text) == w.path {
		sep = '?'
	}
	w.text = append(append(append(w.text, sep), name...), '=')
	return w
}

// appendAsSent escapes a path value and spells hex in lower case, which is all
// the node does with it.
func appendAsSent(dst []byte, value string) []byte {
	if n := len(value); n >= 2 && n%2 == 0 && isHex(value, n/2-1) {
		return appendLower(dst, value)
	}
	return appendEscaped(dst, value)
}

// malformed names the parameter, shows the beginning of its value and says what
// is expected.
func malformed(name, value, expects string) error {
	return badInput("%s is %q; expected %s", name, short(value), expects)
}
