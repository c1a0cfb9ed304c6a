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

// A listing is a list in the order of its keys.
type listing struct {
	name string
	size int
	key  func(i int) string
	item func(i int) string
}

// render answers with one page of a list.
func (p page) render(l listing) ([]byte, error) {
	if p.key != "" && p.offset > 0 {
		return nil, errBoth
	}
	if p.limit == 0 {
		p.limit, p.count = defaultLimit, true
	}
	start := p.start(l)
	count := min(uint64(max(0, l.size-start)), p.limit)
	items := make([]string, count)
	for i := range items {
		items[i] = l.item(p.at(l, start+i))
	}
	next := "null"
	if end := start + len(items); end < l.size {
		next = strconv.Quote(base64.StdEncoding.EncodeToString([]byte(l.key(p.at(l, end)))))
	}
	total := 0
	if p.count && p.key == "" {
		total = l.size
	}
	return fmt.Appendf(nil, `{%q:[%s],"pagination":{"next_key":%s,"total":"%d"}}`, l.name, strings.Join(items, ","), next, total), nil
}

// at is the index of the item at a place, in the direction of the page.
func (p page) at(l listing, place int) int {
	if p.reverse {
		return l.size - 1 - place
	}
	return place
}

// start is the place of the first item.
func (p page) start(l listing) int {
	if p.key == "" {
		return int(min(p.offset, uint64(l.size)))
	}
	if p.reverse { // the last key that is not above
		return l.size - sort.Search(l.size, func(i int) bool { return l.key(i) > p.key })
	}
	return sort.Search(l.size, func(i int) bool { return l.key(i) >= p.key })
}
