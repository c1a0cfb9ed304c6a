package dialect

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

func (ep *Endpoint) readQuery(q *blocks.Read, raw string) (v Values, err error) {
	v, unknown, err := ep.ReadQuery(raw)
	if err == nil && ep.Page != nil {
		v, err = ep.Page(q, v)
	}
	if err != nil {
		return nil, err
	}
	if unknown && ep.manner == Strict {
		q.Typos = ep.typos(raw)
	}
	if v.Large() {
		q.Ask.Cost = max(q.Ask.Cost, node.Scan)
	}
	return v, nil
}

// ReadQuery returns the parameters that the row names in canonical order and form, without those that mean the same as
// no value. The first value of a name counts, or all values of a list. unknown reports that others were ignored.
func (p *Parser) ReadQuery(raw string) (v Values, unknown bool, err error) {
	if v, unknown, err = p.scan(raw); err != nil {
		return nil, unknown, err
	}
	if p.Row.Query == Anything {
		if p.manner == Gateway { // only the order among values of one name may matter
			slices.SortStableFunc(v, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
		}
		return v, false, nil
	}
	slices.SortStableFunc(v, func(a, b Value) int { return cmp.Or(cmp.Compare(a.field, b.field), p.compareNames(a, b)) })
	canonical, last := v[:0], -1
	for _, given := range v {
		f := &p.Fields[given.field]
		if given.field == last && !f.List {
			continue
		}
		if last = given.field; given.Text == "" && p.manner == Strict {
			continue
		}
		text, ok := f.Read(given.Text)
		if !ok {
			return nil, unknown, f.Malformed(given.Text)
		}
		if text != "" || f.Keep {
			canonical = append(canonical, Value{Name: f.Name, Text: text})
		}
	}
	return canonical, unknown, nil
}

// scan returns the row's parameters in a query, as they were sent.
func (p *Parser) scan(raw string) (v Values, unknown bool, err error) {
	v = make(Values, 0, 1+strings.Count(raw, "&"))
	var page string // the name of the page's group that counts
	for pair := range strings.SplitSeq(raw, "&") {
		rawName, rawText, _ := strings.Cut(pair, "=")
		name, badName := url.QueryUnescape(rawName)
		text, badText := url.QueryUnescape(rawText)
		broken := badName != nil || badText != nil || strings.Contains(pair, ";")
		switch {
		case broken && p.manner == Gateway:
			return nil, false, errAmbiguous
		case pair == "" || broken && (p.manner == Lenient || p.Row.Query == Anything):
			continue
		case p.Row.Query == Anything:
			v = append(v, Value{Name: name, Text: text})
			continue
		}
		if group, _, found := strings.Cut(name, "."); found && (page == "" || group == Pagination) && strings.EqualFold(group, Pagination) {
			page = group
		}
		i, err := p.find(name, v)
		switch {
		case err != nil:
			return nil, false, err
		case i < 0:
			unknown = true
		case badText == nil:
			v = append(v, Value{name, text, i})
		case !slices.ContainsFunc(v, func(set Value) bool { return set.field == i }):
			return nil, false, (&Field{Name: p.Fields[i].Name, Kind: Kind{Expects: "valid percent-encoding"}}).Malformed(rawText)
		}
	}
	if p.manner == Lenient {
		v = slices.DeleteFunc(v, func(given Value) bool {
			group, _, found := strings.Cut(given.Name, ".")
			return found && group != page
		})
	}
	return v, unknown, nil
}

// compareNames sorts an exact name before others of the same field, which lenient nodes match in any case. The group of
// both is the same.
func (p *Parser) compareNames(a, b Value) int {
	exact := func(given Value) int {
		name := p.Fields[given.field].Name
		if strings.HasSuffix(strings.TrimSuffix(given.Name, "[]"), strings.TrimPrefix(name, Pagination+".")) {
			return 0
		}
		return 1
	}
	if p.manner != Lenient || a.Name == b.Name {
		return 0
	}
	return cmp.Compare(exact(a), exact(b))
}

// find returns the index of the field of a name, -1 for none. seen are the parameters before it.
func (p *Parser) find(name string, seen Values) (field int, err error) {
	switch p.manner {
	case Lenient:
		name = strings.TrimSuffix(name, "[]")
	case Gateway:
		if given, err := p.inPath(name); given || err != nil {
			return -1, err
		}
	case Strict:
	}
	for i := range p.Fields {
		f := &p.Fields[i]
		switch {
		case name == f.Name || f.Alias != "" && name == f.Alias || p.manner == Lenient && strings.EqualFold(name, f.Name):
			return i, p.conflict(i, name, seen)
		case p.manner == Gateway && (isBelow(name, f.Name) || isBelow(name, f.Alias) || isBelow(f.Name, name)):
			return -1, errAmbiguous
		}
	}
	return -1, nil
}
