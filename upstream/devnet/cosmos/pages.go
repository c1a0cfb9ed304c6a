package cosmos

import (
	"encoding/base64"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// defaultLimit is the page of a request that names none.
const defaultLimit = 100

// A page is the part of a list that is asked for.
type page struct {
	key            string
	offset, limit  uint64
	count, reverse bool
}

func (p *page) set(name, value string) {
	switch name {
	case "key":
		p.key = value
	case "offset":
		p.offset, _ = strconv.ParseUint(value, 10, 64) // parsed before
	case "limit":
		p.limit, _ = strconv.ParseUint(value, 10, 64)
	case "count_total":
		p.count = value == "true"
	case "reverse":
		p.reverse = value == "true"
	}
}

// errBoth is the words of most modules for a key together with an offset.
var errBoth = fail(internal, "invalid request, either offset or key is expected, got both")

// list answers with the page that is asked for of a list in the order of its keys.
func list[T any](q *query, name string, all []T, key, item func(T) string) (string, error) {
	p, size := q.page, len(all)
	if p.key != "" && p.offset > 0 {
		return "", errBoth
	}
	if p.limit == 0 {
		p.limit, p.count = defaultLimit, true
	}
	at := func(place int) T {
		if p.reverse {
			place = size - 1 - place
		}
		return all[place]
	}
	start := p.start(size, func(i int) string { return key(all[i]) })
	items := make([]string, min(uint64(max(0, size-start)), p.limit))
	for i := range items {
		items[i] = item(at(start + i))
	}
	next, total := "null", 0
	if end := start + len(items); end < size {
		next = strconv.Quote(base64.StdEncoding.EncodeToString([]byte(key(at(end)))))
	}
	if p.count && p.key == "" {
		total = size
	}
	return fmt.Sprintf(`{%q:[%s],"pagination":{"next_key":%s,"total":"%d"}}`, name, strings.Join(items, ","), next, total), nil
}

// start is the place of the first item, in the direction of the page.
func (p page) start(size int, key func(i int) string) int {
	if p.key == "" {
		return int(min(p.offset, uint64(size)))
	}
	if p.reverse { // the last key that is not above
		return size - sort.Search(size, func(i int) bool { return key(i) > p.key })
	}
	return sort.Search(size, func(i int) bool { return key(i) >= p.key })
}

// An entry is an item of a list that has no keys of its own.
type entry struct{ key, text string }

// entries gives texts the keys of their places.
func entries(texts []string) []entry {
	all := make([]entry, len(texts))
	for i, text := range texts {
		all[i] = entry{fmt.Sprintf("%08d", i), text}
	}
	return all
}

// listTexts is list for texts in their order.
func listTexts(q *query, name string, texts []string) (string, error) {
	return list(q, name, entries(texts), func(e entry) string { return e.key }, func(e entry) string { return e.text })
}
