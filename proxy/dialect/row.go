// Package dialect is what the interfaces to the chain's queries have in common, whatever its
// nodes speak. A dialect is a table of rows, the kinds of their fields, the manner in which its nodes
// read a query, and what it makes of their answers and errors.
//
//  1. row.go is one line of a table, which pattern.go finds by its path.
//  2. reader.go compiles a row, and brings the path and the query of a request into their one
//     spelling, by its fields (field.go): the cache key and what the node is asked.
//  3. endpoint.go has package blocks answer the question: wait for its block and ask the cache.
//  4. source.go tells the same answer of a node from another one.
package dialect

import (
	"fmt"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Row is one line of a dialect's table: a path, and how it is asked and kept.
// Router, cache key, query allow-list, the node's concurrency limits, metrics,
// purges and the OpenAPI document read it.
type Row struct {
	Name    string // metric label, operation id, and what purges and policies call it
	Pattern string // {name} stands for a segment, {name=**} for all that follow; {name:kind} where the name alone does not say the kind
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
	row, ok := find(rows, name)
	return row.Class, ok
}

// find is the row of a name; ok is false where no row has it.
func find(rows []Row, name string) (row Row, ok bool) {
	for _, row := range rows {
		if row.Name == name {
			return row, true
		}
	}
	return Row{}, false
}

// SelectRoute selects the keys of one row of a table, which begin with a prefix: those
// at explicit heights too.
func SelectRoute(rows []Row, prefix, name string) (cache.Selection, error) {
	if row, ok := find(rows, name); ok {
		return row.selection(prefix), nil
	}
	return cache.Selection{}, fmt.Errorf("no route is called %q%s", web.Short(name), web.DidYouMean(name, append(names(rows), "collections"))) // the listing's, which is in no dialect
}

func names(rows []Row) (all []string) {
	for _, row := range rows {
		all = append(all, row.Name)
	}
	return all
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
