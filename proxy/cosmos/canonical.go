package cosmos

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A question is a Question to a node of the SDK, and its origin.
type question struct {
	dialect.Question
	ep *endpoint
}

// parse reads a request, also where its heights are none. What CometBFT answers is not read at a height, whatever the client says: the
// answer would be the newest all the same.
func (ep *endpoint) parse(r *http.Request) (*dialect.Question, error) {
	q := &question{ep: ep}
	q.Query = blocks.Query{Kind: ep.Kind, Cost: ep.Cost, Origin: q}
	spell(ep.row, &q.Question, r.URL.Path, r.URL.RawQuery)
	var err error
	q.Heights, err = heights.Read(r)
	if !ep.Class.Pinned() && ep.Class != Never {
		q.Pinned = 0
	}
	return &q.Question, err
}

// keyPrefix sets the keys of the dialect apart.
const keyPrefix = "cosmos"

// uncertain begins the query in the key of a request that the node may not understand, or
// understand in two ways.
const uncertain = "?!"

// spell puts what a request asks the node into the question, in one spelling. Requests that mean the same
// have equal keys; where that is not certain, they have two.
func spell(row *dialect.Reader, q *dialect.Question, decoded, rawQuery string) {
	decoded = dropColon(decoded)
	spelling, err := row.ReadPath(decoded)
	var values dialect.Values
	if err == nil {
		values, _, err = row.ReadQuery(rawQuery)
	}
	if err == nil {
		q.Spell(keyPrefix, spelling, values)
	} else {
		q.Spell(keyPrefix, decoded, nil)
		q.Key, q.RawQuery = q.Key+uncertain+keySafe.Replace(rawQuery), rawQuery
		given, _ := url.ParseQuery(rawQuery)
		values = dialect.Values{{Name: dialect.PageLimit, Text: given.Get(dialect.PageLimit)}}
	}
	if values.Large() {
		q.Cost = node.Scan
	}
}

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
