package dialect

import (
	"errors"
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/upstream/node"
)

// errAmbiguous is of a query that a gateway refuses, or whose meaning depends on the order in
// which it goes through the names.
var errAmbiguous = errors.New("the query may mean two things")

// uncertain begins the query in the key of a request that the node may not understand, or
// understand in two ways.
const uncertain = "?!"

// Uncertain tells whether a key is that of a request which the node may not understand.
func Uncertain(key string) bool { return strings.Contains(key, uncertain) }

// keep puts a request into the question as it came: where it is not certain that two of them mean the same,
// they have two keys.
func (ep *Endpoint) keep(q *Question, u *url.URL) {
	q.Path = DropColon(u.Path)
	q.spell(ep.Prefix, nil)
	q.Key, q.RawQuery = q.Key+uncertain+keySafe.Replace(u.RawQuery), u.RawQuery
	given, _ := url.ParseQuery(u.RawQuery)
	if (Values{{Name: PageLimit, Text: given.Get(PageLimit)}}).Large() {
		q.Cost = node.Scan
	}
}

// keySafe keeps what begins a height out of a query that was not decoded.
var keySafe = strings.NewReplacer("!", "!!", "@", "!a")

// DropColon cuts the colon of an empty verb. Where another one is before it, it is none.
func DropColon(decoded string) string {
	cut, ok := strings.CutSuffix(decoded, ":")
	if !ok || strings.HasSuffix(cut, ":") || strings.HasSuffix(cut, "/") {
		return decoded
	}
	return cut
}

// inPath tells whether the path gives the field of a name, so that the query cannot. By its alias a
// gateway does not know it there, and lets it change what the path says.
func (p *Parser) inPath(name string) (given bool, err error) {
	if strings.Contains(name, "[") { // name[value] carries a value in the name
		return false, errAmbiguous
	}
	first, _, _ := strings.Cut(name, ".")
	for i := range p.path {
		switch f := &p.path[i]; {
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
func (p *Parser) conflict(place int, name string, seen Values) error {
	if p.manner == Gateway {
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
