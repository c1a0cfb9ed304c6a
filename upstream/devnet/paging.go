package devnet

import (
	"fmt"
	"net/http"
	"sort"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A pagination is what a request says about the page it wants. The names of
// the type and its fields are in the node's texts about malformed bodies.
type pagination cosmos.Page

// descend is where a descending page begins. The node looks one item ahead of
// its key without checking: on the last item it panics, and the connection is
// dropped; from between two items it begins at the upper one.
func descend[T any](p pagination, all []T, key func(T) string) pagination {
	from := sort.Search(len(all), func(i int) bool { return key(all[i]) >= p.Key })
	if from == len(all)-1 {
		panic(http.ErrAbortHandler)
	}
	if from < len(all) {
		p.Key = key(all[from])
	}
	return p
}

// listPage answers with the page that is asked for of a list that is ordered by
// key. What it has no items for is none; "" leaves the member out.
func listPage[T any](q *query, name, none string, all []T, key func(T) string, keep func(T) bool, item func(T)) error {
	p := q.request.Pagination
	if p.Key != "" && p.Offset == 0 && p.Reverse {
		p = descend(p, all, key)
	}
	items, next, total, err := cosmos.Paginate(cosmos.Page(p), all, key, keep)
	if err != nil {
		return internal(err)
	}
	q.text("{")
	if len(items) > 0 || none != "" {
		q.text(`"`, name, `":`)
		list(q, items, none, item)
		q.text(",")
	}
	var members []string
	if next != "" {
		members = append(members, fmt.Sprintf(`"next_key":%q`, base64Text([]byte(next))))
	}
	if total > 0 {
		members = append(members, fmt.Sprintf(`"total":"%d"`, total))
	}
	q.textf(`"pagination":{%s}}`, strings.Join(members, ","))
	return nil
}
