package collections_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

// httpFixture reads over HTTP what is written to the SQLite store behind.
func httpFixture(t *testing.T) fixture {
	behind := open(t, "sqlite::memory:", collections.Options{})
	server := serve(t, v4(behind))
	return fixture{
		store:  open(t, server+"/api/v4/", collections.Options{APIKey: "the key"}),
		writer: behind,
	}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// v4 serves a store in the documented shape, strict about what it is asked.
func v4(s *collections.Store) http.HandlerFunc {
	orders := map[string]collections.OrderBy{
		"updatedAt": collections.UpdatedAt, "assetCount": collections.AssetCount, "licensesCount": collections.LicensesCount,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			OrderBy, OrderDirection string
			Pagination              struct{ Limit, Offset int }
			Where                   struct {
				CollectionAddresses          []string
				MinAssetCount, MaxAssetCount *int64
			}
		}
		body := json.NewDecoder(r.Body)
		body.DisallowUnknownFields()
		order, known := orders[""], false
		if err := body.Decode(&q); err == nil {
			order, known = orders[q.OrderBy]
		}
		asked := r.Method == http.MethodPost && r.URL.Path == "/api/v4/collections" &&
			r.Header.Get("Content-Type") == "application/json" && r.Header.Get("X-Api-Key") == "the key"
		if !asked || !known || q.Pagination.Limit < 1 {
			http.Error(w, "not the documented request", http.StatusUnprocessableEntity)
			return
		}
		page, err := s.List(r.Context(), collections.Query{
			OrderBy: order, Desc: q.OrderDirection == "desc", Limit: q.Pagination.Limit, Offset: q.Pagination.Offset,
			Addresses: q.Where.CollectionAddresses, MinAssets: q.Where.MinAssetCount, MaxAssets: q.Where.MaxAssetCount,
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(answer(page, q.Pagination.Limit, q.Pagination.Offset))
	}
}

type object = map[string]any

// answer is the documented answer.
func answer(page collections.Page, limit, offset int) object {
	data := []object{}
	for _, c := range page.Items {
		data = append(data, object{
			"collectionAddress": c.Address, "assetCount": c.AssetCount, "licensesCount": c.LicensesCount,
			"raisedDisputeCount": c.RaisedDisputeCount, "cancelledDisputeCount": c.CancelledDisputeCount,
			"judgedDisputeCount": c.JudgedDisputeCount, "resolvedDisputeCount": c.ResolvedDisputeCount,
			"createdAt": c.CreatedAt, "updatedAt": c.UpdatedAt,
		})
	}
	return object{
		"$schema": "https://host/api/v4/CollectionsResponseBodyHuma.json", "data": data,
		"pagination": object{
			"limit": limit, "offset": offset, "total": page.Total, "hasMore": int64(offset+len(data)) < page.Total,
		},
	}
}

func always(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// never answers. A server notices that its client has left once it has read
// what the client sent.
func never(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

const oneCollection = `{"data":[{"collectionAddress":"0xAbc0000000000000000000000000000000000001","assetCount":1,"licensesCount":2,
	"raisedDisputeCount":0,"cancelledDisputeCount":0,"judgedDisputeCount":0,"resolvedDisputeCount":0,"surprise":[],
	"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T01:00:00.5+01:00","collectionMetadata":METADATA}],
	"pagination":{"limit":20,"offset":0,"total":1,"hasMore":false}}`

func TestHTTPMetadataComesInTheDocumentedForm(t *testing.T) {
	for name, test := range map[string]struct{ sent, want string }{
		"the marketplace's part is renamed": {`{"name":"x","openSeaMetadata":{"floorPrice":0.5}}`, `{"marketplaceMetadata":{"floorPrice":0.5},"name":"x"}`},
		"a tipcache has named it already":   {`{"marketplaceMetadata":{}}`, `{"marketplaceMetadata":{}}`},
		"a supply given as a number":        {`{"totalSupply":10000}`, `{"totalSupply":"10000"}`},
		"a supply given as a string":        {`{"totalSupply":"115792089237316195423570985008687907853269984665640564039457584007913129639935"}`, `{"totalSupply":"115792089237316195423570985008687907853269984665640564039457584007913129639935"}`},
		"no supply":                         {`{"totalSupply":null}`, `{"totalSupply":null}`},
		"an empty object":                   {`{}`, `{}`},
		"null":                              {`null`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, serve(t, always(200, strings.Replace(oneCollection, "METADATA", test.sent, 1))), collections.Options{})
			page := list(t, s, collections.Query{})
			if diff := cmp.Diff(test.want, string(page.Items[0].Metadata)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			expect.Equal(t, page.Items[0].UpdatedAt, time.Date(2026, 1, 1, 0, 0, 0, 5e8, time.UTC), "updated at")
		})
	}
}

func TestInvalidHTTPAnswersAreErrors(t *testing.T) {
	t.Parallel()
	const problem = "application/problem+json"
	good := strings.Replace(oneCollection, "METADATA", "{}", 1)
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		kind    upstream.Kind
		after   time.Duration
		cause   string
	}{
		"a key it does not know":     {always(401, `{"title":"Unauthorized","detail":"unknown key"}`, "Content-Type", problem), upstream.BadAnswer, 0, "unknown key"},
		"a request it refuses":       {always(422, `{"title":"Unprocessable Entity"}`), upstream.BadAnswer, 0, "Unprocessable"},
		"too many requests":          {always(429, ``, "Retry-After", "7"), upstream.Overloaded, 7 * time.Second, "429"},
		"too many, without a time":   {always(429, `no JSON`), upstream.Overloaded, time.Second, "429"},
		"unavailable for ages":       {always(503, ``, "Retry-After", "999999999"), upstream.Overloaded, time.Hour, "503"},
		"unavailable since the past": {always(503, ``, "Retry-After", "Thu, 01 Jan 2026 00:00:00 GMT"), upstream.Overloaded, time.Second, "503"},
		"a gateway's timeout":        {always(504, ``), upstream.Timeout, 0, "504"},
		"a failing server":           {always(500, ``), upstream.Unreachable, 0, "500"},
		"a redirect":                 {always(307, ``, "Location", "https://elsewhere/"), upstream.BadAnswer, 0, "307"},
		"no JSON":                    {always(200, `<html>`), upstream.BadAnswer, 0, "not a page"},
		"no data":                    {always(200, `{"data":null,"pagination":{"total":0}}`), upstream.BadAnswer, 0, "has no data or no pagination.total"},
		"no total":                   {always(200, `{"data":[],"pagination":{}}`), upstream.BadAnswer, 0, "has no data or no pagination.total"},
		"no address":                 {always(200, `{"data":[{}],"pagination":{"total":1}}`), upstream.BadAnswer, 0, "address"},
		"metadata that is a list":    {always(200, strings.Replace(oneCollection, "METADATA", "[]", 1)), upstream.BadAnswer, 0, "metadata"},
		"more than was asked for":    {always(200, `{"data":[{},{},{}],"pagination":{"total":3}}`), upstream.BadAnswer, 0, "3 collections, want at most 2"},
		"a truncated answer":         {always(200, good, "Content-Length", "100000"), upstream.Unreachable, 0, "EOF"},
		"too large an answer":        {always(200, good+strings.Repeat(" ", 8<<20)), upstream.BadAnswer, 0, "exceeds 8388608"},
		"no answer in time":          {never, upstream.Timeout, 0, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			o := collections.Options{APIKey: "secret"}
			if test.cause == "deadline" {
				o.Timeout = 500 * time.Millisecond
			}
			s := open(t, serve(t, test.handler), o)
			_, err := s.List(t.Context(), collections.Query{Limit: 2})
			got := silent(t, err, test.kind)
			if got.RetryAfter != test.after || !strings.Contains(err.Error(), test.cause) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error = %v, retry after %v; want one with %q after %v", err, got.RetryAfter, test.cause, test.after)
			}
		})
	}
}

func TestHTTPWithoutAServerIsUnreachable(t *testing.T) {
	s := open(t, "http://127.0.0.1:1/api/v4", collections.Options{})
	_, err := s.List(t.Context(), collections.Query{})
	silent(t, err, upstream.Unreachable)
	silent(t, s.Ping(t.Context()), upstream.Unreachable)
}

func TestHTTPIsReadOnly(t *testing.T) {
	s := open(t, "https://host.invalid/api/v4//", collections.Options{})
	if _, err := s.Import(t.Context(), each(some(1))); !errors.Is(err, collections.ErrReadOnly) {
		t.Errorf("error = %v", err)
	}
	expect.Equal(t, s.Name(), "https://host.invalid/api/v4", "name")
}

func TestKeyEchoedByServerIsHidden(t *testing.T) {
	const key = "sEcReT-k3y"
	echo := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"in a problem":          echo(401, `{"title":"Unauthorized","detail":"the key `+key+` is not known"}`),
		"in a title":            echo(500, `{"title":"`+key+`"}`),
		"where a text is cut":   echo(403, `{"detail":"`+strings.Repeat("x", 195)+key+`"}`),
		"in upper case":         echo(429, `{"detail":"`+strings.ToUpper(key)+` asks too often"}`),
		"in a page":             echo(200, `{"data":[{"collectionAddress":"0xe785E82358879F061BC3dcAC6f0444462D4b5330","createdAt":"`+key+`"}],"pagination":{"total":1}}`),
		"in a field of numbers": echo(200, `{"data":[{"assetCount":"`+key+`"}],"pagination":{"total":1}}`),
	} {
		var log bytes.Buffer
		s := open(t, serve(t, handler)+"/api/v4", collections.Options{APIKey: key, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		_, err := s.List(t.Context(), collections.Query{})
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		if said := strings.ToLower(err.Error() + log.String()); strings.Contains(said, strings.ToLower(key)[:6]) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

func TestMetadataOfAServerIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"collectionAddress":"0xe785E82358879F061BC3dcAC6f0444462D4b5330","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z",`+
			`"collectionMetadata":{"name":"x`+long+`","openSeaMetadata":{"floorPrice":1e999,"description":"`+long+`","imageUrl":"data:image/png;base64,`+long+`"}}}],"pagination":{"total":1}}`)
	})+"/api/v4", collections.Options{})
	page := expect.Value(s.List(t.Context(), collections.Query{}))(t)
	cut := strings.Repeat("é", 2048)
	want := object{"name": "x" + cut[:4094], "marketplaceMetadata": object{"floorPrice": nil, "description": cut, "imageUrl": nil}}
	var got object
	expect.NoError(t, json.Unmarshal(page.Items[0].Metadata, &got))
	expect.NoDiff(t, got, want, "metadata")
}

func TestOutageOfStoreIsLoggedAtStartAndEnd(t *testing.T) {
	var log bytes.Buffer
	var down atomic.Bool
	behind := open(t, "sqlite::memory:", collections.Options{})
	answers := v4(behind)
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answers(w, r)
	})+"/api/v4", collections.Options{APIKey: "the key", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, lost := range []bool{false, true, true, true, false, false} {
		down.Store(lost)
		if _, err := s.List(t.Context(), collections.Query{}); (err != nil) != lost {
			t.Errorf("lost %v: %v", lost, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	collections.NewWatch(s, prometheus.NewRegistry()).Run(ctx) // it cannot tell how far it is counted, which is no loss
	for _, said := range []string{`level=WARN msg="upstream unreachable" origin="collection store http://127.0.0.1`, "status 502", `level=INFO msg="upstream reachable again"`} {
		if n := strings.Count(log.String(), said); n != 1 {
			t.Errorf("%q is said %d times:\n%s", said, n, log.String())
		}
	}
}
