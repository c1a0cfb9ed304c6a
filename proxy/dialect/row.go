// Package dialect serves REST queries of a chain from a table of rows. A dialect is such a table, with the types of its
// parameters and the forms of its requests, responses and errors.
//
//  1. table.go finds the endpoint of a request by the row that fits its path, and path.go brings the path into
//     canonical form;
//  2. endpoint.go makes of it a [blocks.Read]: the cache key and the request to the node. Package blocks serves it,
//     and on a miss the dialect reads a node.
//
// query.go reads the parameters that the row names, and typos.go finds probable typos in the others. A query that a gateway may
// read in two ways is sent unchanged (gateway.go). nextkey.go finds the key of the next page in a list.
//
// A row (row.go) is compiled by parser.go and mounted by table.go.
package dialect

import (
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Row is one line of a dialect's table: a path, and how it is read and cached.
// Router, cache key, query allow-list, the node's concurrency limits, metrics,
// purges and the OpenAPI document read it.
type Row struct {
	Name    string       // metric label, operation id, and what purges and policies call it
	Pattern string       // {name} is one segment, {name=**} is the rest; {name:kind} sets the kind if the name does not; "" for a gRPC method without a path
	Class   blocks.Class // freshness class: what ends the freshness of an entry
	Cost    node.Cost    // what a read costs the node: Cheap for one item, Page for a list, Scan for a whole set
	Query   string       // parameters, separated by blanks: name or name:kind; Pagination for all of a page, Anything for any
	Method  string       // gRPC method with the same response, as /package.Service/Method; "" if none
}

// Other is the name of the row for paths that no other row fits.
const Other = "other"

// Anything is the Query of a row that does not know its parameters.
const Anything = "*"

// selection selects the keys of a row. For a row that takes the rest of a path, it selects by the beginning and by what
// follows the first variable, so it may select keys of other rows, too.
func (r Row) selection(prefix string) cache.Selection {
	text := prefix
	for part := range strings.SplitSeq(r.Pattern[1:], "/") {
		switch {
		case strings.Contains(part, "=**"):
			before, after, _ := strings.Cut(text+"/", "*")
			after, _, _ = strings.Cut(after, "*")
			return cache.Selection{Prefix: before, Contains: after}
		case strings.HasPrefix(part, "{"):
			text += "/*"
		default:
			text = string(AppendPath([]byte(text+"/"), part))
		}
	}
	return cache.Selection{Path: text}
}
