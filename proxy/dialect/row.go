// Package dialect is what the interfaces to the chain's queries have in common, whatever its
// nodes speak. A dialect is a table of rows, the kinds of their fields, the manner in which its nodes
// read a query, and what it makes of their answers and errors.
//
//  1. table.go finds the endpoint of a request by the row that fits its path, and path.go gives the path its one
//     spelling;
//  2. endpoint.go makes of it a Question: the cache key and what the node is asked. It has package blocks
//     answer the question, and on a miss the dialect ask a node.
//
// Of a request that has a query, query.go reads the parameters that the row names, and misspelt.go names those
// that were probably meant. What a gateway may read in two ways is asked as it came (gateway.go).
// Pages of lists name the next one (nextkey.go).
//
// A row (row.go) is compiled by parser.go and mounted by table.go.
package dialect

import (
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Row is one line of a dialect's table: a path, and how it is asked and kept.
// Router, cache key, query allow-list, the node's concurrency limits, metrics,
// purges and the OpenAPI document read it.
type Row struct {
	Name    string // metric label, operation id, and what purges and policies call it
	Pattern string // "" for a row of a method of gRPC alone; {name} stands for a segment, {name=**} for all that follow; {name:kind} where the name alone does not say the kind
	Class   blocks.Class
	Cost    node.Cost // what a read costs the node
	Query   string    // the parameters read, as words with blanks between: name or name:kind; Pagination for those of a page, Anything for whatever comes
	Method  string    // of gRPC that gives the same, with its service and the slash before that; "" for none
}

// Anything is the Query of a row that does not know its parameters.
const Anything = "*"

// ClassOf names the freshness class of a row; ok is false where no row has the
// name.
func ClassOf(rows []Row, name string) (class blocks.Class, ok bool) {
	for _, row := range rows {
		if row.Name == name {
			return row.Class, true
		}
	}
	return "", false
}

// selection is the keys of a row. Where it takes the rest of a path they are known
// by what comes before.
func (r Row) selection(prefix string) cache.Selection {
	text := prefix
	for part := range strings.SplitSeq(r.Pattern[1:], "/") {
		switch {
		case strings.Contains(part, "=**"):
			before, after, _ := strings.Cut(text+"/", "*")
			return cache.Selection{Prefix: before, Contains: after}
		case strings.HasPrefix(part, "{"):
			text += "/*"
		default:
			text += "/" + part
		}
	}
	return cache.Selection{Path: text}
}
