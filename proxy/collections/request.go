package collections

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	store "github.com/tipcache/tipcache/upstream/collections"
)

// Limits of a request body, which also limit keys and responses.
const (
	maxListBody    = 1 << 20
	maxListMembers = 200 // members of one object; at most five are documented
)

// readRequest returns the requested listing, and the block of the execution chain that the client requires; 0 requires none. It
// reserves memory for the body until it is parsed.
func (h *Handler) readRequest(r *web.Request, deadline time.Time) (l listing, minBlock int64, err error) {
	held := h.stack.HoldBody(&r.Record.Client)
	defer held.Release()
	body, err := readListBody(r, held, deadline)
	if err != nil {
		return l, 0, err
	}
	if l, err = h.schema.parse(body); err != nil {
		return l, 0, err
	}
	minBlock, err = web.ReadMinEVM(r)
	return l, minBlock, err
}

// readListBody reads the body until its end or the request's deadline. A client that expects "100 Continue" is refused before
// it sends the body.
func readListBody(r *web.Request, held *conn.RequestBody, deadline time.Time) ([]byte, error) {
	switch {
	case r.Method == web.MethodQuery && r.Header.Get("Content-Type") == "":
		return nil, failure.BadInput("a QUERY request needs a Content-Type")
	case !isJSON(r.Header.Get("Content-Type")):
		return nil, errNotJSON
	case !isPlain(r.Header["Content-Encoding"]):
		return nil, errCompressed
	case r.ContentLength > maxListBody:
		return nil, errTooLarge
	}
	_ = http.NewResponseController(r.Writer).SetReadDeadline(deadline) // reads of bodies have no context; fails only without a connection
	body, err := held.ReadAll(http.MaxBytesReader(r.Writer, r.Body, maxListBody), maxListBody)
	if err != nil {
		return nil, unreadable(err)
	}
	return body, nil
}

// isPlain reports whether a body has no content coding.
func isPlain(codings []string) bool {
	return len(codings) == 0 || len(codings) == 1 && (codings[0] == "" || strings.EqualFold(codings[0], "identity"))
}

// isJSON accepts a missing type and ignores parameters, because clients send malformed ones such as "application/json;
// charset".
func isJSON(contentType string) bool {
	typ, _, _ := strings.Cut(contentType, ";")
	typ = strings.ToLower(strings.TrimSpace(typ))
	return typ == "" || typ == "application/json" || strings.HasSuffix(typ, "+json")
}

// A listRequest is the body of POST /api/v4/collections.
type listRequest struct {
	Schema ignored `json:"$schema,omitempty" doc:"URL of a JSON Schema. Ignored."`
	store.ListRequest
}

// ignored is documented as a string and accepts any value.
type ignored string

func (*ignored) UnmarshalJSON([]byte) error { return nil }

// defaultRequest returns the request of an empty object. A null does not change it.
func defaultRequest() listRequest {
	return listRequest{ListRequest: store.ListRequest{
		OrderBy:        "updatedAt",
		OrderDirection: "desc",
		Pagination:     store.ListWindow{Limit: store.DefaultLimit},
	}}
}

// A listing is a valid request in normalized form. Equivalent requests have the same listing.
type listing struct {
	store.Query
	Nothing bool   // the filters exclude everything, so the store is not read
	Key     string // key in the cache
	Store   string // the store in the key; "" if unknown
}

// in returns the listing of a store. Stores that share a cache have separate keys.
func (l listing) in(store string) listing {
	if store != "" && !l.Nothing {
		l.Key, l.Store = l.Key+"/"+store, store
	}
	return l
}

func (r listRequest) listing() listing {
	known := canonicalAddresses(r.Where.Addresses)
	low, high := r.Where.MinAssets, r.Where.MaxAssets
	l := listing{
		Query: store.Query{
			OrderBy:   store.OrderBy(max(0, slices.Index(store.OrderNames[:], r.OrderBy))), // the first is the default
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

// canonicalAddresses omits texts that are not addresses. The schema allows any text, but none of them is a collection's.
func canonicalAddresses(given []string) []string {
	var known []string
	for _, a := range given {
		if a = strings.ToLower(a); store.IsAddress(a) {
			known = append(known, a)
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// keyPrefix begins the keys of listings.
const keyPrefix = "collections/"

// key returns Key. Its length does not depend on the number of addresses.
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

func (l listing) String() string {
	if l.Nothing {
		return "nothing: the filters exclude everything"
	}
	direction := "least first"
	if l.Desc {
		direction = "greatest first"
	}
	filters := encode(store.ListFilters{Addresses: l.Addresses, MaxAssets: l.MaxAssets, MinAssets: l.MinAssets})
	return fmt.Sprintf("%d collections from %d on by %s, %s, where %s", l.Limit, l.Offset, store.OrderNames[l.OrderBy], direction, bytes.TrimSpace(filters))
}

// Select selects the keys of all listings.
func Select() cache.Selection { return cache.Selection{Prefix: keyPrefix} }
