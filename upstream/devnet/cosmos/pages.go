package cosmos

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A Page is the part of a list that a request asks for.
type Page struct {
	Key           string // of the first item; "" goes by the offset
	Offset, Limit uint64 // default limit: 100, which also counts the total
	CountTotal    bool
	Reverse       bool
}

// defaultLimit is the page of a request that names none.
const defaultLimit = 100

// errBoth is how most modules refuse a key together with an offset.
var errBoth = fail(internal, "invalid request, either offset or key is expected, got both")

// Paginate cuts a page out of a list that is ordered by key, as the SDK does. Items that
// keep refuses are not there; nil refuses none. The next key is "" behind the last page,
// the total 0 unless it is counted.
func Paginate[T any](p Page, all []T, key func(T) string, keep func(T) bool) (items []T, next string, total uint64, err error) {
	if p.Key != "" && p.Offset > 0 {
		return nil, "", 0, errBoth
	}
	if p.Limit == 0 {
		p.Limit, p.CountTotal = defaultLimit, true
	}
	all = ordered(p, all, key)
	end := p.Offset + p.Limit // may wrap around: then there are no items but a next key
	var hits uint64
	for _, item := range all {
		if p.Key != "" && hits == p.Limit {
			return items, key(item), 0, nil // whatever comes next is the next key
		}
		if keep == nil || keep(item) {
			if hits >= p.Offset && hits < end {
				items = append(items, item)
			}
			hits++
		}
		if p.Key == "" && hits == end+1 {
			if next == "" {
				next = key(item)
			}
			if !p.CountTotal {
				break
			}
		}
	}
	if p.CountTotal && p.Key == "" {
		total = hits
	}
	return items, next, total, nil
}

// ordered are the items in the order of the page, from its key on.
func ordered[T any](p Page, all []T, key func(T) string) []T {
	switch {
	case p.Key != "" && p.Reverse: // from the last key that is not above
		all = all[:sort.Search(len(all), func(i int) bool { return key(all[i]) > p.Key })]
	case p.Key != "":
		all = all[sort.Search(len(all), func(i int) bool { return key(all[i]) >= p.Key }):]
	}
	if p.Reverse {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	return all
}

// pageAsked is the page that the arguments name; they have been parsed.
func (q *query) pageAsked() Page {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(q.args["pagination."+name], 10, 64)
		return n
	}
	return Page{q.args["pagination.key"], number("offset"), number("limit"), q.args["pagination.count_total"] == "true", q.args["pagination.reverse"] == "true"}
}

// list answers with the page that is asked for of a list in the order of its keys.
func list[T any](q *query, name string, all []T, key, item func(T) string) (string, error) {
	p, size := q.pageAsked(), uint64(len(all))
	p.Offset, p.Limit = min(p.Offset, size+1), min(p.Limit, size+1) // lest their sum wrap around
	some, after, total, err := Paginate(p, all, key, nil)
	next := "null"
	if after != "" {
		next = strconv.Quote(base64Text([]byte(after)))
	}
	items := make([]string, len(some))
	for i, one := range some {
		items[i] = item(one)
	}
	return fmt.Sprintf(`{%q:[%s],"pagination":{"next_key":%s,"total":"%d"}}`, name, strings.Join(items, ","), next, total), err
}

// listTexts is list for texts that have no keys but their places.
func listTexts(q *query, name string, texts []string) (string, error) {
	places := make([]int, len(texts))
	for i := range places {
		places[i] = i
	}
	return list(q, name, places, func(i int) string { return fmt.Sprintf("%08d", i) }, func(i int) string { return texts[i] })
}
