package dialect

import (
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

const (
	maxTypos    = 5
	maxCompared = 50 // unknown names, so that a query of thousands costs little
)

// typos names the parameters of a query that the row does not take, but that are probably typos of one that it takes.
// All unknown parameters are ignored, and a client would not notice. It names each once, and at most maxTypos, because
// proxies limit the size of headers.
func (p *Parser) typos(rawQuery string) string {
	var found []string
	compared := 0
	for name := range p.unknownNames(rawQuery) {
		if !isParameterName(name) {
			continue
		}
		if compared++; compared > maxCompared {
			break
		}
		known := p.nearest(name)
		typo := name + " (did you mean " + known + "?)"
		if known == "" || slices.Contains(found, typo) {
			continue
		}
		if found = append(found, typo); len(found) == maxTypos {
			break
		}
	}
	return strings.Join(found, ", ")
}

// ignored names the parameters of a query that the row does not take, each once, with the parameter that it probably means.
// A query that the node reads itself has none.
func (p *Parser) ignored(rawQuery string) string {
	if _, unknown, err := p.ReadQuery(rawQuery); err != nil || !unknown {
		return ""
	}
	var all []string
	for name := range p.unknownNames(rawQuery) {
		text := name
		if !isParameterName(name) {
			text = strconv.Quote(name)
		} else if known := p.nearest(name); known != "" {
			text += " (did you mean " + known + "?)"
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// unknownNames returns the names of the parameters in a query that the row does not take.
func (p *Parser) unknownNames(rawQuery string) iter.Seq[string] {
	return func(yield func(name string) bool) {
		for pair := range strings.SplitSeq(rawQuery, "&") {
			rawName, _, _ := strings.Cut(pair, "=")
			name, err := url.QueryUnescape(rawName)
			if i, _ := p.find(name, nil); err == nil && i < 0 && pair != "" && !yield(name) {
				return
			}
		}
	}
}

// nearest returns the parameter that a misspelled name probably means, or "". It compares the whole name and the part after the
// dot.
func (p *Parser) nearest(name string) string {
	name = strings.ToLower(name)
	for i := range p.Fields {
		known := p.Fields[i].Name
		_, last, _ := strings.Cut(known, ".")
		most := min(2, len(known)/3)
		if name == last || levenshtein.ComputeDistance(name, known) <= most || last != "" && levenshtein.ComputeDistance(name, last) <= min(1, len(last)/4) {
			return known
		}
	}
	return ""
}

// isParameterName reports whether a name may stand in a header.
func isParameterName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return name != "" && len(name) <= 40 && strings.Trim(name, allowed) == ""
}
