package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
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

func TestViolationsAreListedInSchemaOrder(t *testing.T) {
	s := startList(t, listing.Options{})
	res, body := s.post(t, `{"foo":1,"orderBy":"createdAt","where":{"collectionAddresses":["`+wow+`",5]},"pagination":{"limit":201}}`)
	expect.Equal(t, res.StatusCode, http.StatusUnprocessableEntity, "status")
	compareGolden(t, "violations.json", body)
	expect.Equal(t, s.store.calls.Load(), 0, "store requests")
}

// FuzzBody checks that the store gets a valid query or the client a refusal.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"where":{"collectionAddresses":["` + wow + `",5]},"pagination":{"limit":201}}`,
		`{"ORDERBY":"assetCount","x.y":{"a":[1.5]},"\u212A":1}`, `{"pagination":{"limit":1e2,"offset":-0}}`, "\xff{",
	} {
		f.Add([]byte(seed))
	}
	p, store := newListProxy(f, listing.Options{NoAuth: true})
	var query *collections.Query
	store.answerWith(func(_ context.Context, q collections.Query) (collections.Page, error) {
		query = &q
		return collections.Page{}, nil
	})
	f.Fuzz(func(t *testing.T, body []byte) {
		query = nil
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(string(body)))
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if !json.Valid(w.Body.Bytes()) || !utf8.Valid(w.Body.Bytes()) {
			t.Errorf("body = %q, want JSON in UTF-8", w.Body)
		}
		switch w.Code {
		case http.StatusOK:
		case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
			if query != nil {
				t.Errorf("query of a refused request = %+v, want none", query)
			}
			return
		default:
			t.Fatalf("status = %d %s, want 200, 400, 413 or 422", w.Code, w.Body)
		}
		if q := query; q != nil && (q.Limit < 1 || q.Limit > 200 || q.Offset < 0 || len(q.Addresses) > 200) {
			t.Errorf("query = %+v, want it within the documented limits", q)
		}
	})
}

func TestSchemasAndTheirReferencesAreServed(t *testing.T) {
	s := startList(t, listing.Options{})
	for _, name := range []string{"CollectionPage", "Problem"} {
		res, body := s.send(t, http.MethodGet, "/api/v4/"+name+".json", "", "X-Api-Key", "")
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s = %d with type %s, want 200 with JSON", name, res.StatusCode, res.Header.Get("Content-Type"))
		}
		compareGolden(t, name+".schema.json", body)
		again, _ := s.send(t, http.MethodGet, "/api/v4/"+name+".json", "", "If-None-Match", res.Header.Get("Etag"))
		expect.Equal(t, again.StatusCode, http.StatusNotModified, "%s: status with the current ETag", name)
		for _, ref := range all(`"\$ref":"([^"]*)"`, body) {
			res, _ := s.send(t, http.MethodGet, ref, "")
			expect.Equal(t, res.StatusCode, http.StatusOK, "status of %s, to which %s refers", ref, name)
		}
	}
}

func TestTooLargeBodyIsRefusedBeforeItIsSent(t *testing.T) {
	s := startList(t, listing.Options{})
	conn := dial(t, s.Listener.Addr())
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: host\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n", listPath, testKey)
	status, err := conn.answers.ReadString('\n')
	if err != nil || !strings.Contains(status, "413") {
		t.Errorf("status line = %q, %v; want 413", status, err)
	}
}

// A long body is read into one buffer that doubles when it is full. Validation copies neither the body nor its values.
func TestLongBodyIsNotCopied(t *testing.T) {
	p, _ := newListProxy(t, listing.Options{})
	body := `{"where":{"collectionAddresses":[` + strings.Repeat(`"`+wow+`",`, 20_000) + `""]}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(body))
	r.Header.Set("X-Api-Key", testKey)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	if w.Code != http.StatusUnprocessableEntity {
		t.Fatalf("status = %d %s, want 422", w.Code, w.Body)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(3*len(body)) {
		t.Errorf("a body of %d bytes allocated %d, want at most three times its size", len(body), took)
	}
}

// pageAt requests a page from a host and returns it decoded.
func pageAt(t *testing.T, h http.Handler, host, accepts string) (coding, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(`{}`))
	r.Host = host
	r.Header.Set("Accept-Encoding", accepts)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	expect.Equal(t, w.Code, http.StatusOK, "status (%s)", w.Body)
	coding = w.Header().Get("Content-Encoding")
	return coding, decode(t, coding, w.Body.String())
}

func TestPagesAreTheSameInEveryCodingAtEveryHost(t *testing.T) {
	h, store := newListProxy(t, listing.Options{NoAuth: true, Policy: cache.Policy{Fresh: time.Hour}})
	store.setCollections(slices.Repeat([]collections.Collection{worldOfWomen()}, 20)...) // long enough to be compressed
	for range 2 {
		for i := range 4 {
			host := fmt.Sprintf("h%d.example", i)
			_, plain := pageAt(t, h, host, "identity")
			if want := `{"$schema":"http://` + host + `/api/v4/`; !strings.HasPrefix(plain, want) {
				t.Errorf("page at %s = %.60s, want it to begin with %s", host, plain, want)
			}
			for _, accepts := range []string{"gzip", "zstd", "br"} {
				coding, body := pageAt(t, h, host, accepts)
				if coding != accepts || body != plain {
					t.Errorf("page at %s in coding %q = %.60s, want the plain page in %s", host, coding, body, accepts)
				}
			}
		}
	}
	expect.Equal(t, store.calls.Load(), 1, "store requests")
}

func TestPagesHaveTheSchemeThatATrustedProxyNames(t *testing.T) {
	s := startList(t, listing.Options{NoAuth: true, Policy: cache.Policy{Fresh: time.Hour}}, func(o *proxy.Options) {
		o.Web.PublicURL, o.Web.Limits.TrustedProxies = "", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	for range 4 {
		for _, scheme := range []string{"https", "http"} {
			r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+listPath, strings.NewReader(`{}`)))(t)
			r.Host = "h.example"
			r.Header.Set("X-Forwarded-Proto", scheme)
			resp := expect.Value(s.Client().Do(r))(t)
			body := expect.Value(io.ReadAll(resp.Body))(t)
			resp.Body.Close()
			if want := `{"$schema":"` + scheme + "://h.example/"; !strings.HasPrefix(string(body), want) {
				t.Errorf("page = %.60s, want it to begin with %s", body, want)
			}
		}
	}
}

func TestSlowBodyTimesOut(t *testing.T) {
	t.Parallel()
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Web.RequestTimeout = 200 * time.Millisecond })
	slow, end := io.Pipe()
	defer end.Close()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+listPath, slow))(t)
	r.Header.Set("X-Api-Key", testKey)
	res := expect.Value(s.Client().Do(r))(t)
	defer res.Body.Close()
	expect.Equal(t, res.StatusCode, http.StatusRequestTimeout, "status")
	expect.Equal(t, res.Header.Get("Content-Type"), "application/problem+json", "Content-Type")
}
