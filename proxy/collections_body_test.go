package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestEveryViolationIsListedInTheOrderOfTheSchema(t *testing.T) {
	s := startList(t, listing.Options{})
	res, body := s.post(t, `{"foo":1,"orderBy":"createdAt","where":{"collectionAddresses":["`+wow+`",5]},"pagination":{"limit":201}}`)
	expect.Equal(t, res.StatusCode, http.StatusUnprocessableEntity, "status")
	golden(t, "violations.json", body)
	if s.store.calls.Load() != 0 {
		t.Error("store was read, want no read")
	}
}

// FuzzBody: whatever is sent, the store is asked for what it can answer, or
// the client is told what is wrong.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"where":{"collectionAddresses":["` + wow + `",5]},"pagination":{"limit":201}}`,
		`{"ORDERBY":"assetCount","x.y":{"a":[1.5]},"\u212A":1}`, `{"pagination":{"limit":1e2,"offset":-0}}`, "\xff{",
	} {
		f.Add([]byte(seed))
	}
	p, store := newListProxy(f, listing.Options{NoAuth: true})
	var asked *collections.Query
	store.will(func(_ context.Context, q collections.Query) (collections.Page, error) {
		asked = &q
		return collections.Page{}, nil
	})
	f.Fuzz(func(t *testing.T, body []byte) {
		asked = nil
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(string(body)))
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if !json.Valid(w.Body.Bytes()) || !utf8.Valid(w.Body.Bytes()) {
			t.Errorf("answered %q", w.Body)
		}
		switch w.Code {
		case http.StatusOK:
		case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
			if asked != nil {
				t.Errorf("refused, and asked for %+v", asked)
			}
			return
		default:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if q := asked; q != nil && (q.Limit < 1 || q.Limit > 200 || q.Offset < 0 || len(q.Addresses) > 200) {
			t.Errorf("asked for %+v", q)
		}
	})
}

func TestSchemasAreServedWithAllTheyReferTo(t *testing.T) {
	s := startList(t, listing.Options{})
	for _, name := range []string{"CollectionPage", "Problem"} {
		res, body := s.send(t, http.MethodGet, "/api/v4/"+name+".json", "", "X-Api-Key", "")
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: status %d, %s", name, res.StatusCode, res.Header.Get("Content-Type"))
		}
		golden(t, name+".schema.json", body)
		again, _ := s.send(t, http.MethodGet, "/api/v4/"+name+".json", "", "If-None-Match", res.Header.Get("Etag"))
		expect.Equal(t, again.StatusCode, http.StatusNotModified, "%s: status for a client that has it", name)
		for _, ref := range references(body) {
			if res, _ := s.send(t, http.MethodGet, ref, ""); res.StatusCode != http.StatusOK {
				t.Errorf("%s refers to %s, which answers %d", name, ref, res.StatusCode)
			}
		}
	}
}

func references(schema string) []string {
	var refs []string
	for _, part := range strings.Split(schema, `"$ref":"`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		refs = append(refs, ref)
	}
	return refs
}

func TestBodyAnnouncedTooLargeIsRefusedAtOnce(t *testing.T) {
	s := startList(t, listing.Options{})
	conn := expect.Value(net.Dial("tcp", s.Listener.Addr().String()))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: host\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n", listPath, testKey)
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(status, "413") {
		t.Errorf("%q, %v", status, err)
	}
}
