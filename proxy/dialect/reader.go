package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
)

// A Manner is how the nodes of a dialect read a query.
type Manner int

// The manners.
const (
	Strict  Manner = iota // what is malformed is refused; an empty value is none
	Lenient               // what cannot be decoded is passed over; names match in any case and with [] behind them
	Gateway               // of grpc-gateway: what it refuses, or reads in no certain order, is ambiguous
)

// A Reader reads the requests of one row of a table.
type Reader struct {
	Row
	Fields  []Field // of the query, in canonical order
	manner  Manner
	pattern pattern
	path    []Field // of its segments; none of a literal
}

// NewReader compiles a row.
func NewReader(row Row, manner Manner, lookup Lookup) (rd *Reader, err error) {
	rd = &Reader{Row: row, manner: manner}
	if rd.pattern, err = parsePattern(row.Pattern); err != nil {
		return nil, err
	}
	if rd.path, rd.Fields, err = fieldsOf(row, rd.pattern, lookup); err != nil {
		return nil, fmt.Errorf("%s: %w", row.Pattern, err)
	}
	return rd, nil
}

// A Lookup is the field that a word in a row stands for: name or name:kind.
type Lookup func(word string, inPath bool) (Field, error)

// fieldsOf are the fields of a row: those of its path, one for each segment, and those of its
// query, with those of a page last.
func fieldsOf(row Row, p pattern, lookup Lookup) (path, query []Field, err error) {
	path = make([]Field, len(p))
	for i, s := range p {
		if s.Literal != "" {
			continue
		}
		if path[i], err = lookup(s.Word, true); err != nil {
			return nil, nil, err
		}
		if path[i].List {
			return nil, nil, fmt.Errorf("%s is a list, which a path cannot hold", path[i].Name)
		}
	}
	if row.Query == Anything {
		return path, nil, nil
	}
	var words, page []string
	for _, word := range strings.Fields(row.Query) {
		if word == Pagination {
			page = PageNames[:]
		} else {
			words = append(words, word)
		}
	}
	for _, word := range append(words, page...) {
		f, err := lookup(word, false)
		if err != nil {
			return nil, nil, err
		}
		query = append(query, f)
	}
	return path, query, nil
}

// ReadPath gives a decoded path, which the pattern fits, its one spelling.
func (rd *Reader) ReadPath(path string) (spelling string, err error) {
	var room [maxParts]string
	parts := split(room[:0], path)
	changed := false
	for i, s := range rd.pattern {
		if s.Literal != "" {
			continue
		}
		if s.Rest {
			parts = append(parts[:i], strings.Join(parts[i:], "/"))
		}
		given := parts[i]
		if given == "." || given == ".." { // segments that stand for another path
			return "", &web.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(string(AppendPath(nil, "/"+strings.Join(parts[:i+1], "/"))))}
		}
		if parts[i], err = rd.path[i].inPath(given); err != nil {
			return "", err
		}
		changed = changed || parts[i] != given
	}
	if !changed {
		return path, nil
	}
	return "/" + strings.Join(parts, "/"), nil
}

// errAmbiguous is of a query that a gateway refuses, or whose meaning depends on the order in
// which it goes through the names.
var errAmbiguous = errors.New("the query may mean two things")

// ReadQuery gives the parameters that the row names their order and spelling, and leaves out what says as
// much as no value. Of one name's values the first counts, but all of a list.
// Unknown says that there are others, which are passed over.
func (rd *Reader) ReadQuery(raw string) (v Values, unknown bool, err error) {
	if raw == "" {
		return nil, false, nil
	}
	if v, unknown, err = rd.scan(raw); err != nil {
		return nil, unknown, err
	}
	if rd.Query == Anything { // only the order among those of one name may mean something
		slices.SortStableFunc(v, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
		return v, false, nil
	}
	slices.SortStableFunc(v, func(a, b Value) int { return cmp.Compare(a.field, b.field) })
	spelled, last := v[:0], -1
	for _, given := range v {
		f := &rd.Fields[given.field]
		if given.field == last && !f.List {
			continue
		}
		if last = given.field; given.Text == "" && rd.manner == Strict {
			continue
		}
		text, ok := f.Read(given.Text)
		if !ok {
			return nil, unknown, f.Malformed(given.Text)
		}
		if text != "" || f.Keep {
			spelled = append(spelled, Value{Name: f.Name, Text: text})
		}
	}
	return spelled, unknown, nil
}

// scan takes the row's parameters out of a query, as they are given.
func (rd *Reader) scan(raw string) (v Values, unknown bool, err error) {
	v = make(Values, 0, 1+strings.Count(raw, "&"))
	for pair := range strings.SplitSeq(raw, "&") {
		rawName, rawText, _ := strings.Cut(pair, "=")
		name, badName := url.QueryUnescape(rawName)
		text, badText := url.QueryUnescape(rawText)
		broken := badName != nil || badText != nil || strings.Contains(pair, ";")
		switch {
		case pair == "" || broken && rd.manner == Lenient:
			continue
		case broken && rd.manner == Gateway:
			return nil, false, errAmbiguous
		case rd.Query == Anything:
			v = append(v, Value{Name: name, Text: text})
			continue
		}
		i, err := rd.find(name, v)
		switch {
		case err != nil:
			return nil, false, err
		case i < 0:
			unknown = true
		case badText == nil:
			v = append(v, Value{name, text, i})
		case !slices.ContainsFunc(v, func(set Value) bool { return set.field == i }):
			return nil, false, (&Field{Name: rd.Fields[i].Name, Kind: Kind{Expects: "valid percent-encoding"}}).Malformed(rawText)
		}
	}
	return v, unknown, nil
}

// Names tells whether the row knows a name, as it stands in a query.
func (rd *Reader) Names(rawName string) bool {
	name, err := url.QueryUnescape(rawName)
	if err != nil {
		return false
	}
	i, _ := rd.find(name, nil)
	return i >= 0
}

// find is the place of the field of a name, -1 for none; seen are those before it.
func (rd *Reader) find(name string, seen Values) (place int, err error) {
	switch rd.manner {
	case Lenient:
		name = strings.TrimSuffix(name, "[]")
	case Gateway:
		if given, err := rd.inPath(name); given || err != nil {
			return -1, err
		}
	case Strict:
	}
	for i := range rd.Fields {
		f := &rd.Fields[i]
		switch {
		case name == f.Name || f.Alias != "" && name == f.Alias || rd.manner == Lenient && strings.EqualFold(name, f.Name):
			return i, rd.conflict(i, name, seen)
		case rd.manner == Gateway && (isBelow(name, f.Name) || isBelow(name, f.Alias) || isBelow(f.Name, name)):
			return -1, errAmbiguous
		}
	}
	return -1, nil
}

// inPath tells whether the path gives the field of a name, so that the query cannot. By its alias a
// gateway does not know it there, and lets it change what the path says.
func (rd *Reader) inPath(name string) (given bool, err error) {
	if strings.Contains(name, "[") { // name[value] carries a value in the name
		return false, errAmbiguous
	}
	first, _, _ := strings.Cut(name, ".")
	for i := range rd.path {
		switch f := &rd.path[i]; {
		case f.Name == "":
		case f.Name == first:
			return true, nil
		case f.Alias == first:
			return false, errAmbiguous
		}
	}
	return false, nil
}

// conflict refuses a second name of one field: a gateway reads the two in no certain order.
func (rd *Reader) conflict(place int, name string, seen Values) error {
	if rd.manner == Gateway {
		for i := range seen {
			if seen[i].field == place && seen[i].Name != name {
				return errAmbiguous
			}
		}
	}
	return nil
}

// isBelow says whether a name is that of a part of another one.
func isBelow(name, whole string) bool {
	rest, ok := strings.CutPrefix(name, whole)
	return ok && strings.HasPrefix(rest, ".")
}
