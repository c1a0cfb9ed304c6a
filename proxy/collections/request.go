package collections

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/cache"
	store "github.com/tipcache/tipcache/upstream/collections"
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
			OrderBy:   column(r.OrderBy),
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

// column reads a valid orderBy.
func column(name string) store.OrderBy {
	switch name {
	case "assetCount":
		return store.AssetCount
	case "licensesCount":
		return store.LicensesCount
	default:
		return store.UpdatedAt
	}
}

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
	order := [...]string{store.UpdatedAt: "updatedAt", store.AssetCount: "assetCount", store.LicensesCount: "licensesCount"}[l.OrderBy]
	text := fmt.Sprintf("%d collections from %d on by %s, %s", l.Limit, l.Offset, order, direction)
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
