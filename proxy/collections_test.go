package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	listing "github.com/tipcache/tipcache/proxy/collections"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestListingIsAPageWithItsHeaders(t *testing.T) {
	s := startList(t, listing.Options{Metadata: fakeProvider{strings.ToLower(wow): wowMetadata}})
	res, body := s.post(t, `{"pagination":{"limit":1}}`)
	expect.Response(t, "a page", res.StatusCode, body, http.StatusOK)
	compareGolden(t, "page.json", body)
	want := http.Header{
		"Content-Type":  {"application/json"},
		"Link":          {`</api/v4/CollectionPage.json>; rel="describedBy"`},
		"Cache-Control": {"private, no-cache"},
		"Age":           nil, // the page was read for this request
		"Vary":          {"Accept-Encoding"},
		"X-Request-Id":  {requestID},
	}
	for name := range want {
		expect.NoDiff(t, res.Header[name], want[name], "%s", name)
	}
	expect.Contains(t, res.Header.Get("Cache-Status"), "tipcache; fwd=uri-miss; stored", "Cache-Status")
}

func TestListingAllowsOnlyPOSTAndQUERY(t *testing.T) {
	s := startList(t, listing.Options{})
	for _, method := range []string{http.MethodGet, http.MethodPut, "query"} {
		if res, _ := s.send(t, method, listPath, "{}"); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST, QUERY" {
			t.Errorf("%s = %d with Allow %q, want 405 with POST, QUERY", method, res.StatusCode, res.Header.Get("Allow"))
		}
	}
}
