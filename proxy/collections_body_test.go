package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

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
