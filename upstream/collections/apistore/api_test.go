package apistore_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/apistore"
)

const somePage = `{"data":[{"collectionAddress":"0xAbc0000000000000000000000000000000000001","assetCount":7,"createdAt":"2025-01-02T03:04:05Z","updatedAt":"2025-01-02T03:04:05Z"}],"pagination":{"total":1}}`

func TestListReturnsThePageOfTheServerOrWhyThereIsNone(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		kind   upstream.Kind // of the error; 0 for none
	}{
		"a page":           {200, somePage, 0},
		"no JSON":          {200, "}", upstream.BadAnswer},
		"a page of a 500":  {500, somePage, upstream.Unreachable},
		"too many":         {429, `{}`, upstream.Overloaded},
		"the end too soon": {0, "", upstream.Unreachable},
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
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			}))
			defer server.Close()
			_, driver, err := apistore.Open(t.Context(), server.URL, collections.Options{APIKey: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			defer driver.Close()
			page, err := driver.List(t.Context(), collections.Query{OrderBy: collections.AssetCount, Desc: true, Limit: 10, Offset: 3})
			if got := upstream.KindOf(err); got != tt.kind || (err == nil) != (tt.kind == 0) {
				t.Errorf("error = %v of kind %v, want kind %v", err, got, tt.kind)
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
