package dialect

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Value is one parameter of a query, in its one spelling, and not escaped.
type Value struct {
	Name, Text string
	field      int // its place in the row
}

// Values are the parameters of a query, in canonical order.
type Values []Value

// Get is the value of a name, "" if there is none.
func (v Values) Get(name string) string {
	for i := range v {
		if v[i].Name == name {
			return v[i].Text
		}
	}
	return ""
}

// Number is the number of a name, 0 if there is none.
func (v Values) Number(name string) (n uint64) {
	if text := v.Get(name); text != "" {
		n, _ = strconv.ParseUint(text, 0, 64)
	}
	return n
}

// With is the same but for the value of a name that is there; an empty one goes.
func (v Values) With(name, text string) Values {
	for i := range v {
		if v[i].Name == name {
			v[i].Text = text
		}
	}
	return slices.DeleteFunc(v, func(one Value) bool { return one.Name == name && text == "" })
}

// Large says whether a page is asked for that weighs on the node as much as the whole set.
func (v Values) Large() bool { return v.Number(PageLimit) > largePage }

const largePage = 1000

// Append writes them as a query.
func (v Values) Append(dst []byte) []byte {
	for i := range v {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(appendEscaped(dst, v[i].Name, unreserved), '=')
		dst = appendEscaped(dst, v[i].Text, unreserved)
	}
	return dst
}

// ErrAmbiguous is of a query that a gateway refuses, or whose meaning depends on the order in
// which it goes through the names.
var ErrAmbiguous = errors.New("the query may mean two things")

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
			return nil, false, ErrAmbiguous
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
			return -1, ErrAmbiguous
		}
	}
	return -1, nil
}

// inPath tells whether the path gives the field of a name, so that the query cannot. By its alias a
// gateway does not know it there, and lets it change what the path says.
func (rd *Reader) inPath(name string) (given bool, err error) {
	if strings.Contains(name, "[") { // name[value] carries a value in the name
		return false, ErrAmbiguous
	}
	first, _, _ := strings.Cut(name, ".")
	for i := range rd.path {
		switch f := &rd.path[i]; {
		case f.Name == "":
		case f.Name == first:
			return true, nil
		case f.Alias == first:
			return false, ErrAmbiguous
		}
	}
	return false, nil
}

// conflict refuses a second name of one field: a gateway reads the two in no certain order.
func (rd *Reader) conflict(place int, name string, seen Values) error {
	if rd.manner == Gateway {
		for i := range seen {
			if seen[i].field == place && seen[i].Name != name {
				return ErrAmbiguous
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
