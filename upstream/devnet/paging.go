package devnet

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strings"
)

// A pagination is what a request says about the page it wants. The names of
// the type and its fields are in the node's texts about malformed bodies.
type pagination struct {
	Key        string
	Offset     uint64
	Limit      uint64
	CountTotal bool
	Reverse    bool
}

// defaultLimit is the size of a page when none is asked for.
const defaultLimit = 100

var errKeyAndOffset = errors.New("rpc error: code = Internal desc = invalid request, either offset or key is expected, got both")

// A page is a part of a list.
type page[T any] struct {
	items []T
	next  []byte // key of the first item after it, nil for none
	total uint64 // 0 unless counted
}

// paginate cuts a page out of a list that is ordered by key. Items that keep
// refuses (nil refuses none) are not there. It panics, as the node does, on a
// descending page from the last item: the connection is dropped.
func paginate[T any](p pagination, all []T, key func(T) []byte, keep func(T) bool) (page[T], error) {
	if p.Key != "" && p.Offset > 0 {
		return page[T]{}, errKeyAndOffset
	}
	if p.Limit == 0 {
		p.Limit, p.CountTotal = defaultLimit, true
	}
	at := func(i int) T { return all[i] }
	count := len(all)
	if p.Key != "" {
		from := sort.Search(count, func(i int) bool { return bytes.Compare(key(all[i]), []byte(p.Key)) >= 0 })
		if p.Reverse {
			count = descendFrom(from, count)
		} else {
			at, count = func(i int) T { return all[from+i] }, count-from
		}
		p.CountTotal = false
	}
	if p.Reverse {
		last := count - 1
		at = func(i int) T { return all[last-i] }
	}
	return cut(p, count, at, key, keep), nil
}

// descendFrom is how many items a descending page has before it when its key
// is at that index. The real node looks one item ahead without checking.
func descendFrom(from, count int) int {
	if from == count-1 {
		panic(http.ErrAbortHandler)
	}
	return min(from+1, count)
}

// cut takes the page out of count items. The end may wrap around, in which
// case there are no items but a next key: the node does not check either.
func cut[T any](p pagination, count int, at func(int) T, key func(T) []byte, keep func(T) bool) page[T] {
	end := p.Offset + p.Limit
	out := page[T]{items: make([]T, 0, min(uint64(count), p.Limit))}
	var hits uint64
	for i := range count {
		item := at(i)
		if p.Key != "" && hits == p.Limit {
			out.next = key(item) // by key, whatever comes next is the next key
			break
		}
		if keep == nil || keep(item) {
			if hits >= p.Offset && hits < end {
				out.items = append(out.items, item)
			}
			hits++
		}
		if p.Key == "" && hits == end+1 {
			if out.next == nil {
				out.next = key(item)
			}
			if !p.CountTotal {
				break
			}
		}
	}
	if p.CountTotal {
		out.total = hits
	}
	return out
}

// listPage answers with the page that is asked for of a list that is ordered by
// key. What it has no items for is none; "" leaves the member out.
func listPage[T any](q *query, name, none string, all []T, key func(T) []byte, keep func(T) bool, item func(T)) error {
	page, err := paginate(q.request.Pagination, all, key, keep)
	if err != nil {
		return err
	}
	q.text("{")
	if len(page.items) > 0 || none != "" {
		q.textf("%q:", name)
		list(q, page.items, none, item)
		q.text(",")
	}
	var members []string
	if page.next != nil {
		members = append(members, fmt.Sprintf(`"next_key":%q`, base64Text(page.next)))
	}
	if page.total > 0 {
		members = append(members, fmt.Sprintf(`"total":"%d"`, page.total))
	}
	q.textf(`"pagination":{%s}}`, strings.Join(members, ","))
	return nil
}
