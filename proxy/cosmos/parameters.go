package cosmos

import "strings"

// maxFields bounds the fields that a row reads from the query, pagination's included.
const maxFields = 16

// given are the parameters of a request, in the row's order.
type given struct {
	values [maxFields]string
	set    [maxFields]bool
	camel  [maxFields]bool // under which of its names
	lists  [maxFields][]string
}

// take reads one parameter. It is not ok where the node refuses it, or where what the node reads
// depends on the order in which it goes through the names.
func (m *matcher) take(g *given, p pair) bool {
	if strings.Contains(p.name, "[") {
		return false // name[value] carries a value in the name
	}
	name, below, nested := strings.Cut(p.name, ".")
	if m.fromPath(name) {
		return true
	}
	if m.overridesPath(name) {
		return false
	}
	if name == "pagination" && m.paged {
		return nested && m.takePage(g, below, p.value)
	}
	i := find(m.fields, name)
	if i < 0 {
		return true
	}
	return !nested && g.put(m.fields[i], i, name, p.value)
}

// takePage reads a parameter below pagination.
func (m *matcher) takePage(g *given, name, value string) bool {
	name, _, nested := strings.Cut(name, ".")
	i := find(pageFields, name)
	if i < 0 {
		return true
	}
	return !nested && g.put(pageFields[i], len(m.fields)+i, name, value)
}

// put notes a value. Of one name's values the first counts; two names of one field
// are read in no certain order.
func (g *given) put(f field, i int, name, value string) bool {
	camel := name != f.name
	if g.set[i] && g.camel[i] != camel {
		return false
	}
	if f.kind == nil {
		g.lists[i] = append(g.lists[i], value)
	}
	if !g.set[i] {
		g.values[i], g.set[i], g.camel[i] = value, true, camel
	}
	return true
}

// find is the field of a name, which may be its JSON name.
func find(fields []field, name string) int {
	for i, f := range fields {
		if name == f.name || name == f.camel {
			return i
		}
	}
	return -1
}

// fromPath says whether the path gives a field: the query cannot, then.
func (m *matcher) fromPath(name string) bool {
	for _, s := range m.path {
		if s.literal == "" && s.name == name {
			return true
		}
	}
	return false
}

// overridesPath says whether a name is the JSON name of a field of the path. The node does not
// know it there and lets it change what the path says: such a request has a key of its own, and
// its answer is never that of the path.
func (m *matcher) overridesPath(name string) bool {
	for _, s := range m.path {
		if s.literal == "" && s.camel == name {
			return true
		}
	}
	return false
}

// write renders the parameters that say something.
func (m *matcher) write(g *given) (string, bool) {
	var b []byte
	for i, f := range m.fields {
		if f.kind == nil {
			for _, value := range g.lists[i] {
				b = appendPair(b, f.name, value)
			}
			continue
		}
		var ok bool
		if b, ok = g.append(b, f, i, f.name); !ok {
			return "", false
		}
	}
	if !m.paged {
		return string(b), true
	}
	for i, f := range pageFields {
		var ok bool
		if b, ok = g.append(b, f, len(m.fields)+i, "pagination."+f.name); !ok {
			return "", false
		}
	}
	return string(b), true
}

func (g *given) append(b []byte, f field, i int, name string) ([]byte, bool) {
	if !g.set[i] {
		return b, true
	}
	value, ok := f.kind(g.values[i])
	if ok && value != "" {
		b = appendPair(b, name, value)
	}
	return b, ok
}
