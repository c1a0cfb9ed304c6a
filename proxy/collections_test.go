package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
)

func TestCollectionsAnswerPages(t *testing.T) {
	s := startList(t, listing.Options{Metadata: describer{strings.ToLower(wow): wowMetadata}})
	res, body := s.post(t, `{"pagination":{"limit":1}}`)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", res.StatusCode, body)
	}
	golden(t, "page.json", body)
	want := http.Header{
		"Content-Type":  {"application/json"},
		"Link":          {`</api/v4/CollectionPage.json>; rel="describedBy"`},
		"Cache-Control": {"private, no-cache"},
		"Age":           nil, // the store has just been asked
		"Vary":          {"Accept-Encoding"},
		"X-Request-Id":  {requestID},
	}
	for name := range want {
		if diff := cmp.Diff(want[name], res.Header[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if !strings.HasPrefix(res.Header.Get("Cache-Status"), "tipcache; fwd=uri-miss; stored") {
		t.Errorf("Cache-Status %q", res.Header.Get("Cache-Status"))
	}
}

func TestCollectionsQueryTheStore(t *testing.T) {
	low, high := int64(0), int64(7)
	defaults := collections.Query{Desc: true, Limit: 20}
	for name, tc := range map[string]struct {
		body string
		want collections.Query
	}{
		"an empty object means the defaults": {`{}`, defaults},
		"nulls mean the defaults": {
			`{"orderBy":null,"orderDirection":null,"pagination":null,"where":null}`, defaults,
		},
		"nulls deeper down mean the defaults": {
			`{"pagination":{"limit":null,"offset":null},"where":{"collectionAddresses":null,"minAssetCount":null,"maxAssetCount":null}}`, defaults,
		},
		"an empty list of addresses is no filter": {`{"where":{"collectionAddresses":[]}}`, defaults},
		"$schema is ignored":                      {`{"$schema":"https://host/x.json"}`, defaults},
		"every field arrives": {
			`{"orderBy":"licensesCount","orderDirection":"asc","pagination":{"limit":200,"offset":9223372036854775807},"where":{"minAssetCount":0,"maxAssetCount":7}}`,
			collections.Query{OrderBy: collections.LicensesCount, Limit: 200, Offset: 1<<63 - 1, MinAssets: &low, MaxAssets: &high},
		},
		"names match without case": {
			`{"ORDERBY":"assetCount","Pagination":{"LIMIT":3}}`,
			collections.Query{OrderBy: collections.AssetCount, Desc: true, Limit: 3},
		},
		"addresses arrive in lower case, in order, once, and without what is none": {
			`{"where":{"collectionAddresses":["` + wow + `","` + other + `","` + strings.ToUpper(wow[2:]) + `","0x` + strings.ToUpper(wow[2:]) + `","x"]}}`,
			collections.Query{Desc: true, Limit: 20, Addresses: []string{other, strings.ToLower(wow)}},
		},
		"space around the object does not matter": {" \r\n\t{}\n", defaults},
	} {
		t.Run(name, func(t *testing.T) {
			s := startList(t, listing.Options{})
			res, body := s.post(t, tc.body)
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", res.StatusCode, body)
			}
			if diff := cmp.Diff(&tc.want, s.store.last.Load()); diff != "" {
				t.Errorf("query (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollectionsFindNothingWithoutAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		where string
		calls int64
	}{
		"an unknown address":               {`{"collectionAddresses":["` + other + `"]}`, 1},
		"what is no address":               {`{"collectionAddresses":["` + strings.Repeat("x", 9999) + `","0x12","\u0000"]}`, 0},
		"a lower bound above the upper":    {`{"minAssetCount":2,"maxAssetCount":1}`, 0},
		"an address without its 0x prefix": {`{"collectionAddresses":["` + wow[2:] + `"]}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := startList(t, listing.Options{})
			res, body := s.post(t, `{"where":`+tc.where+`}`)
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", res.StatusCode, body)
			}
			same(t, `{"$schema":"https://host/api/v4/CollectionPage.json","data":[],"pagination":{"offset":0,"limit":20,"total":0,"hasMore":false}}`, body)
			if got := s.store.calls.Load(); got != tc.calls {
				t.Errorf("the store was asked %d times, want %d", got, tc.calls)
			}
		})
	}
}

func TestCollectionsFindOneInAnyCase(t *testing.T) {
	s := startList(t, listing.Options{})
	for _, address := range []string{wow, strings.ToLower(wow), "0X" + strings.ToUpper(wow[2:])} {
		_, body := s.post(t, `{"orderBy":"updatedAt","orderDirection":"desc","where":{"collectionAddresses":["`+address+`"]}}`)
		if diff := cmp.Diff([]string{wow}, listed(t, body)); diff != "" {
			t.Errorf("asked for %s (-want +got):\n%s", address, diff)
		}
	}
	if got := s.store.calls.Load(); got != 1 {
		t.Errorf("the store was asked %d times for one collection", got)
	}
}

func TestCollectionsCountWhatFollows(t *testing.T) {
	s := startList(t, listing.Options{})
	for name, tc := range map[string]struct {
		window, want string
		items        int
		total        int64
	}{
		"a page in the middle":  {`{"limit":2,"offset":2}`, `{"offset":2,"limit":2,"total":5,"hasMore":true}`, 2, 5},
		"the last page":         {`{"limit":2,"offset":3}`, `{"offset":3,"limit":2,"total":5,"hasMore":false}`, 2, 5},
		"a page past the end":   {`{"limit":2,"offset":9}`, `{"offset":9,"limit":2,"total":5,"hasMore":false}`, 0, 5},
		"the farthest of pages": {`{"limit":2,"offset":9223372036854775807}`, `{"offset":9223372036854775807,"limit":2,"total":5,"hasMore":false}`, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s.store.will(func(context.Context, collections.Query) (collections.Page, error) {
				return collections.Page{Items: make([]collections.Collection, tc.items), Total: tc.total}, nil
			})
			_, body := s.post(t, `{"pagination":`+tc.window+`}`)
			var page struct{ Pagination json.RawMessage }
			if err := json.Unmarshal([]byte(body), &page); err != nil {
				t.Fatal(err)
			}
			same(t, tc.want, string(page.Pagination))
		})
	}
}

func TestCollectionsTolerateSlashes(t *testing.T) {
	s := startList(t, listing.Options{})
	for _, path := range []string{"/api/v4//collections", "/api/v4/collections/", "//api//v4/collections//"} {
		if res, body := s.send(t, http.MethodPost, path, `{}`); res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, res.StatusCode, body)
		}
	}
}
