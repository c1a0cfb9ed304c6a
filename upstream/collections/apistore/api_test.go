package apistore_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/apistore"
	"github.com/tipcache/tipcache/upstream/expect"
)

const somePage = `{"data":[{"collectionAddress":"0xAbc0000000000000000000000000000000000001","assetCount":7,"createdAt":"2025-01-02T03:04:05Z","updatedAt":"2025-01-02T03:04:05Z"}],"pagination":{"total":1}}`

func TestListReturnsThePageOfTheServerOrWhyThereIsNone(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		kind   upstream.Kind // of the error; 0 for none
		wait   time.Duration // of the error
	}{
		"a page":           {200, somePage, 0, 0},
		"no JSON":          {200, "}", upstream.BadAnswer, 0},
		"no data":          {200, `{"pagination":{"total":1}}`, upstream.BadAnswer, 0},
		"no pagination":    {200, `{"data":[]}`, upstream.BadAnswer, 0},
		"no total":         {200, `{"data":[],"pagination":{}}`, upstream.BadAnswer, 0},
		"no address":       {200, strings.Replace(somePage, "0xAbc", "0x", 1), upstream.BadAnswer, 0},
		"no list at all":   {401, `{}`, upstream.BadAnswer, 0},
		"a timeout":        {408, `{}`, upstream.Timeout, 0},
		"a late gateway":   {504, `{}`, upstream.Timeout, 0},
		"a page of a 500":  {500, somePage, upstream.Unreachable, 0},
		"too many":         {429, `{}`, upstream.Overloaded, 7 * time.Second},
		"no place":         {503, `{}`, upstream.Overloaded, 7 * time.Second},
		"the end too soon": {0, "", upstream.Unreachable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				want := `{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":10,"offset":3}}`
				if r.Method != http.MethodPost || string(body) != want || r.Header.Get("X-Api-Key") != "secret" {
					t.Errorf("request = %s %s with key %q, want POST %s with the key", r.Method, body, r.Header.Get("X-Api-Key"), want)
				}
				if tt.status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			}))
			defer server.Close()
			_, driver, err := apistore.Open(t.Context(), server.URL, collections.Options{APIKey: "secret"})
			expect.NoError(t, err)
			defer driver.Close()
			page, err := driver.List(t.Context(), collections.Query{OrderBy: collections.AssetCount, Desc: true, Limit: 10, Offset: 3})
			if got := upstream.KindOf(err); got != tt.kind || (err == nil) != (tt.kind == 0) {
				t.Errorf("error = %v of kind %v, want kind %v", err, got, tt.kind)
			}
			if failure, ok := errors.AsType[*upstream.Error](err); ok && failure.RetryAfter != tt.wait {
				t.Errorf("RetryAfter = %s, want %s", failure.RetryAfter, tt.wait)
			}
			if err == nil && (len(page.Items) != 1 || page.Items[0].AssetCount != 7 || page.Total != 1) {
				t.Errorf("page = %+v, want one collection with 7 assets", page)
			}
			if _, err := driver.Mark(t.Context()); !errors.Is(err, collections.ErrNotIndexed) {
				t.Errorf("Mark = %v, want %v", err, collections.ErrNotIndexed)
			}
		})
	}
}

func TestMetadataHasTheDocumentedFormAndSize(t *testing.T) {
	const most = collections.MaxText
	text := strings.Repeat("x", most)
	for sent, want := range map[string]string{
		`null`:                                                          ``,
		`{"totalSupply":12345678901234567890}`:                          `{"totalSupply":"12345678901234567890"}`,
		`{"totalSupply":"7"}`:                                           `{"totalSupply":"7"}`,
		`{"openSeaMetadata":{"a":1}}`:                                   `{"marketplaceMetadata":{"a":1}}`,
		`{"openSeaMetadata":1,"marketplaceMetadata":2}`:                 `{"marketplaceMetadata":2}`,
		`{"name":"` + text + `x","image":"` + text + `"}`:               `{"image":"` + text + `","name":"` + text + `"}`,
		`{"a":{"image":"` + text + `x"},"b":["` + text + `x",1e999,2]}`: `{"a":{"image":null},"b":[null,null,2]}`,
		`[]`: "error",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Replace(somePage, `"assetCount"`, `"collectionMetadata":`+sent+`,"assetCount"`, 1))
		}))
		_, driver, err := apistore.Open(t.Context(), server.URL, collections.Options{})
		expect.NoError(t, err)
		page, err := driver.List(t.Context(), collections.Query{Limit: 1})
		got := "error"
		if err == nil {
			got = string(page.Items[0].Metadata)
		}
		expect.Equal(t, got, want, "metadata of %.60s (%v)", sent, err)
		driver.Close()
		server.Close()
	}
}
