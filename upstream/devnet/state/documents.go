package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Lines reads JSON values, one in each line.
func Lines[T any](lines []byte) (all []T) {
	for line := range bytes.Lines(lines) {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			panic(fmt.Sprintf("devnet: %s: %v", line, err))
		}
		all = append(all, one)
	}
	return all
}

// Answer returns a document or its error. In the document ${name} stands for a value. If it has pagination, its first
// list is cut to the requested page.
func (q *Query) Answer(document string) (string, error) {
	text := os.Expand(document, q.Value)
	if code := gjson.Get(text, "code").Uint(); code > 0 {
		return "", status.Error(codes.Code(code), gjson.Get(text, "message").String())
	}
	return q.Paged(text)
}

// Paged cuts the first list of a document to the requested page, if the document has pagination.
func (q *Query) Paged(text string) (string, error) {
	list, members := "", []string(nil)
	var page gjson.Result
	var err error
	if !gjson.Get(text, "pagination").IsObject() {
		return text, nil
	}
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		if list == "" && value.IsArray() {
			var body string
			list = key.String()
			body, err = List(q, list, value.Array(), place, func(item gjson.Result) string { return item.Raw })
			page = gjson.Parse(body)
		}
		if list != "" && (key.String() == list || key.String() == "pagination") {
			value = page.Get(key.String())
		}
		members = append(members, key.Raw+":"+value.Raw)
		return err == nil
	})
	return "{" + strings.Join(members, ",") + "}", err
}

// place returns the key of an item: the id of a period delegation, as on a node, and the position of any other.
func place(item gjson.Result) string {
	if id := item.Get("period_delegation.period_delegation_id").Str; id != "" {
		return id
	}
	return fmt.Sprintf("%08d", item.Index)
}

// A Page is the part of a list that a request asks for.
type Page struct {
	Key           string // key of the first item; "" means by offset
	Offset, Limit uint64 // default limit: 100, which also counts the total
	CountTotal    bool
	Reverse       bool
}

// ReadPage reads the parameters pagination.NAME.
func ReadPage(value func(name string) string) Page {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(value("pagination."+name), 10, 64)
		return n
	}
	yes := func(name string) bool {
		b, _ := strconv.ParseBool(value("pagination." + name))
		return b
	}
	return Page{value("pagination.key"), number("offset"), number("limit"), yes("count_total"), yes("reverse")}
}

// defaultLimit is the page of a request that names none.
const defaultLimit = 100

// Both is the modules' error for a key together with an offset. Most report it as an internal error.
const Both = "invalid request, either offset or key is expected, got both"

// List returns the requested page of a list that is ordered by key.
func List[T any](q *Query, name string, all []T, key, item func(T) string) (string, error) {
	some, next, total, err := paginate(q.Page, all, key)
	if err != nil {
		return "", err
	}
	texts := make([]string, len(some))
	for i, one := range some {
		texts[i] = item(one)
	}
	list := "[" + strings.Join(texts, ",") + "]"
	if len(some) == 0 {
		list = q.none(name)
	}
	return `{"` + name + `":` + list + `,"pagination":` + q.Chain.Words.Pagination(next, total) + "}", nil
}

// paginate cuts a page out of a list that is ordered by key, as the SDK does. next is "" after the last page, and total
// is 0 unless it is counted.
func paginate[T any](p Page, all []T, key func(T) string) (items []T, next string, total uint64, err error) {
	if p.Key != "" && p.Offset > 0 {
		return nil, "", 0, status.Error(codes.Internal, Both)
	}
	if p.Limit == 0 {
		p.Limit, p.CountTotal = defaultLimit, true
	}
	size := uint64(len(all))
	all = ordered(p, all, key)
	left := uint64(len(all))
	from := min(p.Offset, left)
	to := from + min(p.Limit, left-from)
	if to < left {
		next = key(all[to])
	}
	if p.CountTotal && p.Key == "" {
		total = size
	}
	return all[from:to], next, total, nil
}

// ordered returns the items in the order of the page, starting at its key.
func ordered[T any](p Page, all []T, key func(T) string) []T {
	switch {
	case p.Key != "" && p.Reverse: // starts at the last key that is not above
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
