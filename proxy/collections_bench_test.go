package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
)

// openList makes a proxy without keys before a store whose pages have so many
// collections.
func openList(b *testing.B, items int) http.Handler {
	b.Helper()
	p, store := newListProxy(b, listing.Options{NoAuth: true, Policy: cache.Policy{Fresh: time.Hour}})
	page := collections.Page{Items: make([]collections.Collection, items), Total: 1_000_000}
	for i := range page.Items {
		page.Items[i] = worldOfWomen()
		page.Items[i].Address = fmt.Sprintf("0x%040X", i)
	}
	store.will(func(context.Context, collections.Query) (collections.Page, error) { return page, nil })
	return p
}

// measurePosts posts the bodies that next makes, through the whole handler.
func measurePosts(b *testing.B, h http.Handler, next func(i int, body *bytes.Buffer), headers ...string) {
	b.Helper()
	var body bytes.Buffer
	r := httptest.NewRequest(http.MethodPost, listPath, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := &discard{http.Header{}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		body.Reset()
		next(i, &body)
		r.Body, r.ContentLength = io.NopCloser(&body), int64(body.Len())
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// What reading and validating a body costs, each time another one that asks for
// the same: the client has the page, so that nothing is written.
func BenchmarkCollectionsBody(b *testing.B) {
	addresses := make([]string, 200)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("%q", fmt.Sprintf("0x%040X", i))
	}
	for name, text := range map[string]string{
		"empty object":  `{}`,
		"one address":   `{"where":{"collectionAddresses":[` + addresses[0] + `]}}`,
		"every field":   `{"orderBy":"licensesCount","orderDirection":"asc","pagination":{"limit":50,"offset":100},"where":{"minAssetCount":1,"maxAssetCount":70}}`,
		"200 addresses": `{"pagination":{"limit":200},"where":{"collectionAddresses":[` + strings.Join(addresses, ",") + `]}}`,
		"refused":       `{"orderBy":"name","pagination":{"limit":0,"offset":-1},"page":1}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			measurePosts(b, openList(b, 20), func(i int, body *bytes.Buffer) {
				body.WriteString(text)
				for ; i > 0; i >>= 1 {
					body.WriteByte(" \t"[i&1])
				}
			}, "If-None-Match", "*")
		})
	}
}

// The same bytes as before are not parsed.
func BenchmarkCollectionsBodyAgain(b *testing.B) {
	measurePosts(b, openList(b, 20), func(_ int, body *bytes.Buffer) {
		body.WriteString(`{"where":{"collectionAddresses":["0x0000000000000000000000000000000000000001"]}}`)
	}, "If-None-Match", "*")
}

// What a page costs that is not cached, with a store that costs nothing.
func BenchmarkCollectionsPage(b *testing.B) {
	for _, items := range []int{0, 20, 200} {
		b.Run(fmt.Sprintf("%d collections", items), func(b *testing.B) {
			measurePosts(b, openList(b, items), func(i int, body *bytes.Buffer) {
				body.WriteString(`{"pagination":{"offset":`)
				body.WriteString(strconv.Itoa(i))
				body.WriteString(`}}`)
			})
		})
	}
}
