package story

import (
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/node"
)

// withKey returns r with what the nodes' pool must know about the page key in its query, because nodes read keys in two
// forms. In the documented shape the pool encodes the key for the node that it chooses. In the node's shape the key is sent
// as the client wrote it, to a node that reads that form.
func (o *origin) withKey(r node.Request) node.Request {
	if o.route.page == nil || r.Query == "" {
		return r
	}
	key, rest := cutKey(r.Query)
	switch {
	case key == "":
	case o.h.asSent:
		r.Keys = o.route.page.formOf(key)
	default:
		r.PageKey, r.Query = key, rest
	}
	return r
}

// cutKey returns the page key in a canonical query, and the query without it.
func cutKey(query string) (key, rest string) {
	before, found, ok := strings.Cut("&"+query, "&"+dialect.PageKey+"=")
	if !ok {
		return "", query
	}
	text, after, more := strings.Cut(found, "&")
	if more {
		before += "&" + after
	}
	key, _ = url.QueryUnescape(text) // escaped by package dialect
	return key, strings.TrimPrefix(before, "&")
}

// formOf returns the form of a page key, UnknownKeys if it is none of the route.
func (format pageKeyFormat) formOf(key string) node.KeyForm {
	if format(key) {
		return node.RawKeys
	}
	if _, ok := format.decode(key); ok {
		return node.Base64Keys
	}
	return node.UnknownKeys
}
