package collections

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	store "github.com/tipcache/tipcache/upstream/collections"
)

// Bounds of a request body, so that no answer and no key grows with it.
const (
	maxListBody    = 1 << 20
	maxListMembers = 200 // members of one object; the documented ones are five at most
)

// asked is the listing that a request asks for. Memory is held for its body until that is
// parsed. A client's pages send the same few bytes over and over, so what valid ones ask for
// is remembered.
func (h *Handler) asked(w http.ResponseWriter, r *http.Request, client *limits.Client, deadline time.Time) (listing, error) {
	held := h.stack.HoldBody(client)
	defer held.Release()
	body, err := readListBody(w, r, held, deadline)
	switch {
	case err != nil:
		return listing{}, err
	case len(body) > memoBody:
		return h.schema.parse(body)
	}
	key := string(body)
	if l, ok := h.memo.GetIfPresent(key); ok {
		return l, nil
	}
	l, err := h.schema.parse(body)
	if err == nil {
		h.memo.Set(key, l)
	}
	return l, err
}

// readListBody reads the body to its end or to the request's deadline. A client
// that announces a body and waits for "100 Continue" is refused before it sends.
func readListBody(w http.ResponseWriter, r *http.Request, held *conn.Body, deadline time.Time) ([]byte, error) {
	switch {
	case r.Method == web.MethodQuery && r.Header.Get("Content-Type") == "":
		return nil, failure.BadInput("a QUERY request needs a Content-Type")
	case !isJSON(r.Header.Get("Content-Type")):
		return nil, errNotJSON
	case !isPlain(r.Header["Content-Encoding"]):
		return nil, errCompressed
	case r.ContentLength > maxListBody:
		return nil, tooLarge(maxListBody)
	}
	_ = http.NewResponseController(w).SetReadDeadline(deadline) // a read of a body has no context; fails only where there is no connection
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxListBody), r.ContentLength, held)
	if err != nil {
		return nil, unreadable(err)
	}
	return body, nil
}

// isPlain reports whether a body comes without a content coding.
func isPlain(codings []string) bool {
	return len(codings) == 0 || len(codings) == 1 && (codings[0] == "" || strings.EqualFold(codings[0], "identity"))
}

// readAll reads to the end, into one piece of memory if the length that the
// client told, -1 for none, is credible.
func readAll(r io.Reader, told int64, held *conn.Body) ([]byte, error) {
	if told < 0 || told > memoBody {
		return held.ReadAll(r, maxListBody)
	}
	if err := held.Take(int(told)); err != nil {
		return nil, err
	}
	body := make([]byte, told)
	_, err := io.ReadFull(r, body)
	return body, err
}

// isJSON takes no type at all for JSON, and looks at no parameter: clients send
// such as "application/json; charset", which is malformed and means nothing.
func isJSON(contentType string) bool {
	typ, _, _ := strings.Cut(contentType, ";")
	typ = strings.ToLower(strings.TrimSpace(typ))
	return typ == "" || typ == "application/json" || strings.HasSuffix(typ, "+json")
}

// Bounds of what is remembered of request bodies, in bytes.
const (
	memoBytes   = 4 << 20
	memoBody    = 16 << 10 // of one: 200 addresses fit; a longer one is parsed each time
	memoListing = 256      // what a listing weighs beside the body
)

// listRequest is the body of POST /api/v4/collections. Its tags are the
// documented schema: validation and the published document both read them.
type listRequest struct {
	Schema         ignored     `json:"$schema,omitempty" doc:"A URL to the JSON Schema for this object; ignored."`
	OrderBy        string      `json:"orderBy,omitempty" enum:"updatedAt,assetCount,licensesCount" default:"updatedAt" doc:"Column the collections are ordered by."`
	OrderDirection string      `json:"orderDirection,omitempty" enum:"asc,desc" default:"desc" doc:"desc has the most recent, or the greatest, first."`
	Pagination     listWindow  `json:"pagination,omitempty"`
	Where          listFilters `json:"where,omitempty"`
}

// ignored is a string in the document, and anything in a request.
type ignored string

// UnmarshalJSON takes whatever there is.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

type listWindow struct {
	Limit  int `json:"limit,omitempty" minimum:"1" maximum:"200" default:"20" doc:"Collections on the page."`
	Offset int `json:"offset,omitempty" minimum:"0" default:"0" doc:"Collections to skip."`
}

type listFilters struct {
	Addresses []string `json:"collectionAddresses,omitempty" maxItems:"200" nullable:"true" doc:"Only these collections; case does not matter, an unknown one is no error."`
	MaxAssets *int64   `json:"maxAssetCount,omitempty" minimum:"0" doc:"Only collections with at most so many assets."`
	MinAssets *int64   `json:"minAssetCount,omitempty" minimum:"0" doc:"Only collections with at least so many assets."`
}

// defaultRequest is what an empty object asks for. A null leaves it as it is.
func defaultRequest() listRequest {
	return listRequest{
		OrderBy:        "updatedAt",
		OrderDirection: "desc",
		Pagination:     listWindow{Limit: store.DefaultLimit},
	}
}

// A listing is a valid request in its one spelling: requests for the same
// page, in whichever words, are the same listing.
type listing struct {
	store.Query
	Nothing bool   // the filters exclude everything: the store need not be asked
	Key     string // the listing's in the cache
}

// listing is what a valid request asks for.
func (r listRequest) listing() listing {
	known := canonicalAddresses(r.Where.Addresses)
	low, high := r.Where.MinAssets, r.Where.MaxAssets
	l := listing{
		Query: store.Query{
			OrderBy:   store.OrderBy(max(0, slices.Index(orders[:], r.OrderBy))), // the first is the default
			Desc:      r.OrderDirection == "desc",
			Limit:     r.Pagination.Limit,
			Offset:    r.Pagination.Offset,
			Addresses: known,
			MinAssets: low,
			MaxAssets: high,
		},
		Nothing: len(known) == 0 && len(r.Where.Addresses) > 0 || low != nil && high != nil && *low > *high,
	}
	l.Key = l.key()
	return l
}

// orders are the values of orderBy.
var orders = [...]string{store.UpdatedAt: "updatedAt", store.AssetCount: "assetCount", store.LicensesCount: "licensesCount"}

// canonicalAddresses leaves out what is no address: the schema lets any text
// pass, and such a text is no collection's.
func canonicalAddresses(given []string) []string {
	var known []string
	for _, a := range given {
		if a = strings.ToLower(a); isCollectionAddress(a) {
			known = append(known, a)
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// isCollectionAddress expects lower case.
func isCollectionAddress(a string) bool {
	digits, ok := strings.CutPrefix(a, "0x")
	return ok && len(digits) == 40 && strings.Trim(digits, "0123456789abcdef") == ""
}

// keyPrefix begins the keys of listings.
const keyPrefix = "collections/"

// key makes Key. It is short, however many addresses are asked for.
func (l listing) key() string {
	b := append(make([]byte, 0, 160), keyPrefix...)
	b = strconv.AppendInt(b, int64(l.OrderBy), 10)
	b = strconv.AppendBool(append(b, '/'), l.Desc)
	b = strconv.AppendInt(append(b, '/'), int64(l.Limit), 10)
	b = strconv.AppendInt(append(b, '/'), int64(l.Offset), 10)
	if l.Nothing {
		return string(append(b, "/nothing"...))
	}
	b = appendBound(append(b, '/'), l.MinAssets)
	b = appendBound(append(b, '/'), l.MaxAssets)
	b = append(b, '/')
	if len(l.Addresses) == 1 {
		return string(append(b, l.Addresses[0]...))
	}
	if len(l.Addresses) > 1 {
		sum := sha256.Sum256([]byte(strings.Join(l.Addresses, ",")))
		b = hex.AppendEncode(b, sum[:])
	}
	return string(b)
}

func appendBound(b []byte, n *int64) []byte {
	if n == nil {
		return b
	}
	return strconv.AppendInt(b, *n, 10)
}

// String says in words what is asked for.
func (l listing) String() string {
	if l.Nothing {
		return "nothing: the filters exclude everything"
	}
	direction := "least first"
	if l.Desc {
		direction = "greatest first"
	}
	text := fmt.Sprintf("%d collections from %d on by %s, %s", l.Limit, l.Offset, orders[l.OrderBy], direction)
	if l.MinAssets != nil {
		text += fmt.Sprintf(", with at least %d assets", *l.MinAssets)
	}
	if l.MaxAssets != nil {
		text += fmt.Sprintf(", with at most %d assets", *l.MaxAssets)
	}
	if len(l.Addresses) > 0 {
		text += ", among " + strings.Join(l.Addresses, ", ")
	}
	return text
}

// Select selects the keys of all listings.
func Select() cache.Selection { return cache.Selection{Prefix: keyPrefix} }
