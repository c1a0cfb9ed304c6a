package dialect

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

// errAmbiguous is returned for a query that a gateway refuses, or whose meaning depends on the order in which it reads
// the names.
var errAmbiguous = errors.New("the query may mean two things")

// uncertain begins the query in the key of a request that the node may refuse, or read in two ways.
const uncertain = "?!"

// Uncertain reports whether a key is from a request that the node may refuse or read in two ways.
func Uncertain(key string) bool { return strings.Contains(key, uncertain) }

// keepVerbatim sets the key and the query from the request as it was sent, and the path without the colon of an empty verb.
// Different texts have different keys, because they may have different meanings.
func (ep *Endpoint) keepVerbatim(q *blocks.Read, u *url.URL) {
	q.Ask.Path = DropColon(u.Path)
	setKey(q, ep.table.Options.Prefix, nil)
	q.Ask.Query = strings.ReplaceAll(u.RawQuery, " ", "%20") // a space would end the request target
	q.Key += uncertain + keySafe.Replace(q.Ask.Query)
	given, _ := url.ParseQuery(u.RawQuery)
	var all Values
	for name, texts := range given {
		for _, text := range texts {
			all = append(all, Value{Name: name, Text: text})
		}
	}
	if all.Large() {
		q.Ask.Cost = node.Scan
	}
}

// keySafe escapes @, which begins a height in a key.
var keySafe = strings.NewReplacer("!", "!!", "@", "!a")

// DropColon removes the colon of an empty verb at the end of a path. After another colon it is part of the path.
func DropColon(decoded string) string {
	cut, ok := strings.CutSuffix(decoded, ":")
	if !ok || strings.HasSuffix(cut, ":") || strings.HasSuffix(cut, "/") {
		return decoded
	}
	return cut
}

// inPath reports whether the path sets the field with a name, so that the query cannot. A gateway does not recognize the
// field's alias, and lets it overwrite the value of the path. That is ambiguous.
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

// conflict returns an error if a field was already given under another name, because a gateway reads the two in an undefined
// order.
func (p *Parser) conflict(field int, name string, seen Values) error {
	isOther := func(v Value) bool { return v.field == field && v.Name != name }
	if p.manner == Gateway && slices.ContainsFunc(seen, isOther) {
		return errAmbiguous
	}
	return nil
}

func isBelow(name, whole string) bool {
	rest, ok := strings.CutPrefix(name, whole)
	return ok && strings.HasPrefix(rest, ".")
}
