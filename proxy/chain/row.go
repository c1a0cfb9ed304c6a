package chain

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
	Query   string    // the parameters read, with blanks between; "pagination" for those of a page, "*" for whatever comes
}

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
	return cache.Selection{}, fmt.Errorf("no route is called %q%s", web.Short(name), web.DidYouMean(name, names(rows)))
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
