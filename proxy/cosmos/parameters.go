package cosmos

import "strings"

// maxFields bounds the fields that a row reads from the query, pagination's included.
const maxFields = 16

// A given is a field as a request gives it.
type given struct {
	name  string // by which of its names; "" if it is not given
	value string
	list  []string // all values, where the field is a list
}

// take reads one parameter. It is not ok where the node refuses it, or where what the node reads
// depends on the order in which it goes through the names.
func (m *matcher) take(all *[maxFields]given, p pair) (ok bool) {
	if strings.Contains(p.name, "[") {
		return false // name[value] carries a value in the name
	}
	first, _, _ := strings.Cut(p.name, ".")
	for _, s := range m.path {
		switch {
		case s.Literal != "":
		case s.name == first: // the path gives it: the query cannot, then
			return true
		case s.camel == first: // the node does not know it there, and lets it change what the path says
			return false
		}
	}
	for i, f := range m.fields {
		switch {
		case p.name == f.name || p.name == f.camel:
			return all[i].put(p.name, p.value, f.kind == nil)
		case isBelow(p.name, f.name), isBelow(p.name, f.camel), isBelow(f.name, p.name):
			return false
		}
	}
	return true
}

// isBelow says whether a name is that of a part of another one.
func isBelow(name, whole string) bool {
	rest, ok := strings.CutPrefix(name, whole)
	return ok && strings.HasPrefix(rest, ".")
}

// put notes a value. Of one name's values the first counts, but for those of a list; two names of one
// field are read in no certain order.
func (g *given) put(name, value string, list bool) (ok bool) {
	if g.name == "" {
		g.name, g.value = name, value
	}
	if list {
		g.list = append(g.list, value)
	}
	return g.name == name
}

// write renders the parameters that say something.
func (m *matcher) write(all *[maxFields]given) (query string, ok bool) {
	var b []byte
	for i, f := range m.fields {
		g := &all[i]
		for _, value := range g.list {
			b = appendPair(b, f.name, value)
		}
		if f.kind == nil || g.name == "" {
			continue
		}
		value, ok := f.kind(g.value)
		if !ok {
			return "", false
		}
		if value != "" {
			b = appendPair(b, f.name, value)
		}
	}
	return string(b), true
}
