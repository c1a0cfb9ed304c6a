package cosmos

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/chain"
)

// A canonicalRequest is what a request asks the node, in one spelling. Requests that
// mean the same have equal ones; where that is not certain, they have two.
type canonicalRequest struct {
	row   *matcher
	key   string // of the cache, without a height
	path  string // decoded
	query string // encoded
}

// keyPrefix sets the keys of the dialect apart.
const keyPrefix = "cosmos"

// uncertain begins the query in the key of a request that the node may not understand, or
// understand in two ways.
const uncertain = "?!"

// ask reads a request. The path is decoded, as the node routes by the decoded one.
func (t *rowTable) ask(decoded, rawQuery string) canonicalRequest {
	var room [chain.MaxParts]string
	m, decoded, parts := t.find(room[:0], decoded)
	q := canonicalRequest{row: m}
	var ok bool
	if q.path, ok = m.canonicalPath(decoded, parts); ok {
		q.query, ok = m.canonicalQuery(rawQuery)
	}
	if !ok {
		q.path, q.query = decoded, rawQuery
	}
	q.key = q.keyOf(ok)
	return q
}

// keyOf is the key of a request. One whose meaning is not certain cannot have the key
// of one whose meaning is.
func (q canonicalRequest) keyOf(certain bool) string {
	text := make([]byte, 0, len(keyPrefix)+len(q.path)+len(q.query)+16)
	text = append(text, keyPrefix...)
	text = chain.AppendEscaped(text, q.path, pathSafe)
	if !certain {
		return string(append(append(text, uncertain...), keySafe.Replace(q.query)...))
	}
	if q.query != "" {
		text = append(append(text, '?'), q.query...)
	}
	return string(text)
}

// large says whether a page is asked for that weighs as much as the whole set.
func (q canonicalRequest) large() bool {
	values, err := url.ParseQuery(q.query)
	if err != nil {
		return false
	}
	limit, _ := strconv.ParseUint(values.Get("pagination.limit"), 0, 64)
	return limit > chain.LargePage
}

// pathSafe are the characters that a path in a key has unescaped: not '?' and '@', which
// mean something in a key.
const pathSafe = chain.Unreserved + "/:=,"

// keySafe keeps what begins a height out of a query that was not decoded.
var keySafe = strings.NewReplacer("!", "!!", "@", "!a")

// clean resolves // and .. as the node does, which answers other spellings with a redirect
// to this one.
func clean(decoded string) string {
	tidy := path.Clean("/" + decoded)
	if strings.HasSuffix(decoded, "/") && tidy != "/" {
		tidy += "/"
	}
	return tidy
}

// dropColon cuts the colon of an empty verb. Where another one is before it, it is none.
func dropColon(decoded string) string {
	cut, ok := strings.CutSuffix(decoded, ":")
	if !ok || strings.HasSuffix(cut, ":") || strings.HasSuffix(cut, "/") {
		return decoded
	}
	return cut
}

// canonicalPath gives the variables of a path their one spelling. It is not ok where the node would
// not understand one of them.
func (m *matcher) canonicalPath(decoded string, parts []string) (string, bool) {
	var b strings.Builder
	changed := false
	for i, s := range m.path {
		given := ""
		if i < len(parts) {
			given = parts[i]
		}
		if s.Rest {
			given = strings.Join(parts[i:], "/")
		}
		value := given
		if s.Literal == "" {
			var ok bool
			if value, ok = s.inPath(given); !ok {
				return "", false
			}
		}
		changed = changed || value != given
		b.WriteByte('/')
		b.WriteString(value)
	}
	if !changed {
		return decoded, true
	}
	return b.String(), true
}

// inPath is the spelling of a variable. What an absent field has is spelled out there,
// since an empty segment is another thing.
func (s segment) inPath(given string) (string, bool) {
	value, ok := s.kind(given)
	switch {
	case !ok || value != "":
		return value, ok
	case s.typ == "uint64" || s.typ == "int64":
		return "0", true
	default:
		return given, given == ""
	}
}

// canonicalQuery puts the parameters of the row into their order and spelling, and leaves
// out what the node ignores and what says nothing. It is not ok where the node would refuse
// the query, or may read it in two ways.
func (m *matcher) canonicalQuery(raw string) (string, bool) {
	if raw == "" {
		return "", true
	}
	pairs, ok := split(raw)
	if !ok {
		return "", false
	}
	if m.open {
		return sorted(pairs), true
	}
	var g [maxFields]given
	for _, p := range pairs {
		if !m.take(&g, p) {
			return "", false
		}
	}
	return m.write(&g)
}

// A pair is a parameter, decoded.
type pair struct{ name, value string }

// split takes a query apart, as the node does; not ok is what it refuses.
func split(raw string) (pairs []pair, ok bool) {
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		if strings.Contains(part, ";") {
			return nil, false
		}
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil, false
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, false
		}
		pairs = append(pairs, pair{name, value})
	}
	return pairs, true
}

// sorted writes parameters of which nothing is known by their names: only the order among
// those of one name may mean something.
func sorted(pairs []pair) string {
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	var text []byte
	for _, p := range pairs {
		text = appendPair(text, p.name, p.value)
	}
	return string(text)
}

func appendPair(text []byte, name, value string) []byte {
	if len(text) > 0 {
		text = append(text, '&')
	}
	text = append(text, url.QueryEscape(name)...)
	text = append(text, '=')
	return append(text, url.QueryEscape(value)...)
}
