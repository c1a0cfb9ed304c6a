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

	"github.com/google/go-cmp/cmp"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
)

// violationsOf returns the errors of a problem as they were sent.
func violationsOf(t *testing.T, body string) string {
	t.Helper()
	var problem struct{ Errors json.RawMessage }
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return string(problem.Errors)
}

func TestEveryViolationIsListedInTheOrderOfTheSchema(t *testing.T) {
	s := startList(t, listing.Options{})
	res, body := s.post(t, `{"foo":1,"orderBy":"createdAt","where":{"collectionAddresses":["`+wow+`",5]},"pagination":{"limit":201}}`)
	if res.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("status %d", res.StatusCode)
	}
	golden(t, "violations.json", body)
	if s.store.calls.Load() != 0 {
		t.Error("the store was asked")
	}
}

func TestViolations(t *testing.T) {
	s := startList(t, listing.Options{})
	for name, tc := range map[string]struct{ body, want string }{
		"a limit above the bound":              {`{"pagination":{"limit":201}}`, `[{"message":"expected number <= 200","location":"body.pagination.limit","value":201}]`},
		"a limit of nothing":                   {`{"pagination":{"limit":0}}`, `[{"message":"expected number >= 1","location":"body.pagination.limit","value":0}]`},
		"a negative offset":                    {`{"pagination":{"offset":-1}}`, `[{"message":"expected number >= 0","location":"body.pagination.offset","value":-1}]`},
		"a fraction":                           {`{"pagination":{"limit":1.5}}`, `[{"message":"expected integer","location":"body.pagination.limit","value":1.5}]`},
		"a number in quotes":                   {`{"pagination":{"limit":"20"}}`, `[{"message":"expected integer","location":"body.pagination.limit","value":"20"}]`},
		"a limit beyond 64 bits":               {`{"pagination":{"limit":99999999999999999999}}`, `[{"message":"expected number <= 200","location":"body.pagination.limit","value":99999999999999999999}]`},
		"a limit below 64 bits":                {`{"pagination":{"limit":-99999999999999999999}}`, `[{"message":"expected number >= 1","location":"body.pagination.limit","value":-99999999999999999999}]`},
		"more than 64 bits":                    {`{"pagination":{"offset":9223372036854775808}}`, `[{"message":"expected integer","location":"body.pagination.offset","value":9223372036854775808}]`},
		"a number no float holds":              {`{"pagination":{"offset":1e999}}`, `[{"message":"expected integer","location":"body.pagination.offset","value":1e999}]`},
		"a limit that is an object":            {`{"pagination":{"limit":{"$gt":0}}}`, `[{"message":"expected integer","location":"body.pagination.limit","value":{"$gt":0}}]`},
		"negative counts":                      {`{"where":{"minAssetCount":-1,"maxAssetCount":-2}}`, `[{"message":"expected number >= 0","location":"body.where.maxAssetCount","value":-2},{"message":"expected number >= 0","location":"body.where.minAssetCount","value":-1}]`},
		"an enum in another case":              {`{"orderDirection":"DESC"}`, `[{"message":"expected value to be one of \"asc, desc\"","location":"body.orderDirection","value":"DESC"}]`},
		"an empty enum":                        {`{"orderBy":""}`, `[{"message":"expected value to be one of \"updatedAt, assetCount, licensesCount\"","location":"body.orderBy","value":""}]`},
		"an enum that is a number":             {`{"orderBy":1}`, `[{"message":"expected string","location":"body.orderBy","value":1}]`},
		"an enum that is a truth":              {`{"orderBy":true}`, `[{"message":"expected string","location":"body.orderBy","value":true}]`},
		"an address that is null":              {`{"where":{"collectionAddresses":[null]}}`, `[{"message":"expected string","location":"body.where.collectionAddresses[0]","value":null}]`},
		"addresses that are one":               {`{"where":{"collectionAddresses":"0x12"}}`, `[{"message":"expected array","location":"body.where.collectionAddresses","value":"0x12"}]`},
		"filters that are a list":              {`{"where":[]}`, `[{"message":"expected object","location":"body.where","value":[]}]`},
		"a body that is a list":                {`[]`, `[{"message":"expected object","location":"body","value":[]}]`},
		"a body that is null":                  {`null`, `[{"message":"expected object","location":"body","value":null}]`},
		"a body that is a number":              {`5`, `[{"message":"expected object","location":"body","value":5}]`},
		"a property of another object":         {`{"limit":5,"where":{"limit":6}}`, `[{"message":"unexpected property","location":"body.where.limit","value":6},{"message":"unexpected property","location":"body.limit","value":5}]`},
		"unexpected properties in their order": {`{"b":null,"a":{"x":[1]},"c":"text"}`, `[{"message":"unexpected property","location":"body.b","value":null},{"message":"unexpected property","location":"body.a","value":{"x":[1]}},{"message":"unexpected property","location":"body.c","value":"text"}]`},
		"names with dots and brackets":         {`{"where":{"a.b[0]":1,"":2},"x.y":3}`, `[{"message":"unexpected property","location":"body.where.a.b[0]","value":1},{"message":"unexpected property","location":"body.where.","value":2},{"message":"unexpected property","location":"body.x.y","value":3}]`},
		"long text is cut":                     {`{"orderBy":"` + strings.Repeat("é", 100) + `"}`, `[{"message":"expected value to be one of \"updatedAt, assetCount, licensesCount\"","location":"body.orderBy","value":"` + strings.Repeat("é", 30) + `…"}]`},
		"a deep structure is cut":              {`{"x":` + strings.Repeat(`[`, 99) + strings.Repeat(`]`, 99) + `}`, `[{"message":"unexpected property","location":"body.x","value":"` + strings.Repeat(`[`, 61) + `…"}]`},
		"a long name is cut":                   {`{"` + strings.Repeat("n", 99) + `":1}`, `[{"message":"unexpected property","location":"body.` + strings.Repeat("n", 61) + `…","value":1}]`},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := s.post(t, tc.body)
			if res.StatusCode != http.StatusUnprocessableEntity {
				t.Fatalf("status %d: %s", res.StatusCode, body)
			}
			same(t, tc.want, violationsOf(t, body))
		})
	}
}

func TestTooManyAddressesAreOneViolation(t *testing.T) {
	s := startList(t, listing.Options{})
	list := func(n int, item string) string {
		return `{"where":{"collectionAddresses":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}}`
	}
	if res, body := s.post(t, list(200, `"`+wow+`"`)); res.StatusCode != http.StatusOK {
		t.Errorf("200 addresses: status %d: %s", res.StatusCode, body)
	}
	_, body := s.post(t, list(20_000, `"`+wow+`"`))
	want := `[{"message":"expected array length <= 200","location":"body.where.collectionAddresses","value":"[\"` + wow + `\",\"0xe785E8235887…"}]`
	same(t, want, violationsOf(t, body))

	_, body = s.post(t, list(500_000, "5"))
	if len(body) > 64<<10 {
		t.Errorf("the answer grew to %d bytes", len(body))
	}
}

func TestMalformedBodies(t *testing.T) {
	s := startList(t, listing.Options{})
	for name, tc := range map[string]struct{ body, message string }{
		"broken off":                      {`{"pagination":{"limit":`, "unexpected end of JSON input"},
		"not JSON":                        {`limit=20`, "invalid character 'l' looking for beginning of value"},
		"trailing garbage":                {`{}x`, "invalid character 'x' after top-level value"},
		"two objects":                     {`{}{}`, "invalid character '{' after top-level value"},
		"not a number":                    {`{"pagination":{"limit":NaN}}`, "invalid character 'N' looking for beginning of value"},
		"invalid UTF-8":                   {"{\"orderBy\":\"\xff\"}", "invalid UTF-8"},
		"a name twice":                    {`{"orderBy":"updatedAt","orderBy":"assetCount"}`, "duplicate property orderBy"},
		"a name twice in different cases": {`{"pagination":{"limit":1,"LIMIT":2}}`, "duplicate property LIMIT"},
		"an unexpected name twice":        {`{"x":1,"x":2}`, "duplicate property x"},
		"nesting without end":             {strings.Repeat(`{"where":`, 20_000) + `1` + strings.Repeat(`}`, 20_000), "invalid character '{' exceeded max depth"},
		"properties without end":          {manyProperties(201), "an object has more than 200 properties"},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := s.post(t, tc.body)
			if res.StatusCode != http.StatusBadRequest {
				t.Fatalf("status %d: %s", res.StatusCode, body)
			}
			want, _ := json.Marshal([]map[string]any{{"message": tc.message, "location": "body", "value": nil}})
			var got, wanted any
			_ = json.Unmarshal([]byte(violationsOf(t, body)), &got)
			_ = json.Unmarshal(want, &wanted)
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func manyProperties(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"p%d":1,`, i)
	}
	return "{" + strings.TrimSuffix(b.String(), ",") + "}"
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
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: status %d for a client that has it", name, again.StatusCode)
		}
		for _, ref := range references(body) {
			if res, _ := s.send(t, http.MethodGet, ref, ""); res.StatusCode != http.StatusOK {
				t.Errorf("%s refers to %s, which answers %d", name, ref, res.StatusCode)
			}
		}
	}
}

// references returns the documents that a schema refers to.
func references(schema string) []string {
	var refs []string
	for _, part := range strings.Split(schema, `"$ref":"`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		refs = append(refs, ref)
	}
	return refs
}

func TestTheSchemaOfARequestIsIgnoredWhateverItIs(t *testing.T) {
	s := startList(t, listing.Options{})
	for _, given := range []string{`"https://host/x.json"`, `5`, `null`, `{"a":{"b":[1,2]}}`, `["x"]`, `1e999`, `true`} {
		if res, body := s.post(t, `{"$schema":`+given+`,"pagination":{"limit":1}}`); res.StatusCode != http.StatusOK {
			t.Errorf("$schema %s: status %d: %s", given, res.StatusCode, body)
		}
	}
	if s.store.calls.Load() != 1 {
		t.Errorf("the store was asked %d times for one page", s.store.calls.Load())
	}
}

func TestACompressedRequestIsRefused(t *testing.T) {
	s := startList(t, listing.Options{})
	for coding, want := range map[string]int{"gzip": 415, "zstd, gzip": 415, "identity": 200, "Identity": 200} {
		if res, body := s.post(t, `{}`, "Content-Encoding", coding); res.StatusCode != want {
			t.Errorf("%s: status %d: %s", coding, res.StatusCode, body)
		}
	}
}

func TestABodyThatIsAnnouncedTooLargeIsNotWaitedFor(t *testing.T) {
	s := startList(t, listing.Options{})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: host\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n", listPath, testKey)
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(status, "413") {
		t.Errorf("%q, %v", status, err)
	}
}
