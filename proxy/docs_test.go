package proxy_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

func TestDocumentDescribesEveryReadPath(t *testing.T) {
	s := startChain(t, proxy.Options{})
	d := readContract(t, s.Config.Handler)
	found := map[string]bool{}
	for _, targets := range readPaths {
		for _, target := range targets {
			op, ok := d.findOperation(target)
			if !ok {
				t.Errorf("document does not describe %s", target)
			}
			found[op.id] = true
		}
	}
	for _, op := range d.operations() {
		isRoute := slices.ContainsFunc(story.Rows(nil), func(row dialect.Row) bool { return row.Name == op.id })
		if op.path != blocks.BatchPath && (!isRoute || !found[op.id]) { // no row describes batches
			t.Errorf("operation %s has no request in readPaths (routes_test.go)", op.id)
		}
		if op.body["summary"] == "Read "+op.id { // the summary of rows that an operator adds
			t.Errorf("%s has no summary in docs/openapi.yaml", op.id)
		}
	}
}

func TestRecordedResponsesMatchTheDocument(t *testing.T) {
	t.Parallel()
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Story: story.Options{Shape: shape}})
		d := readContract(t, s.Config.Handler)
		for _, r := range recordings() {
			op, ok := d.findOperation(r.target())
			if !ok || r.Status == 0 || strings.Contains(r.Name, "encoded_slash") {
				continue
			}
			t.Run(string(shape)+"/"+r.Name, func(t *testing.T) {
				s.chain.answerWith(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
				s.chain.grow(100_000)
				got := s.get(t, r.target())
				d.check(t, op, got.status, got.header, got.body)
			})
		}
	}
}

func TestRecordedSDKResponsesMatchTheDocument(t *testing.T) {
	t.Parallel()
	d := readContract(t, newSDK(t, devnet.Options{}, nil).proxy)
	for _, name := range []string{"NotFound", "InternalServerError"} {
		if d.at(d.doc, "components", "responses", name) == nil {
			t.Errorf("document lacks the node's response %s", name)
		}
	}
	checked := map[string]bool{}
	for _, x := range nodetest.Exchanges(t, "../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		op, ok := d.findOperation(x.Path)
		if !ok || x.Method != http.MethodGet || x.Status != http.StatusOK || strings.HasPrefix(x.Name, "rpc_") {
			continue
		}
		checked[op.id] = true
		t.Run(x.Name, func(t *testing.T) { d.validate(t, op, "200", x.Raw) })
	}
	if len(checked) < 100 {
		t.Errorf("operations with a recorded response = %d, want at least 100", len(checked))
	}
}

func TestRefusalOfAPathThatTheChainLacksMatchesTheDocument(t *testing.T) {
	t.Parallel()
	s := newSDK(t, devnet.Options{}, nil)
	d := readContract(t, s.proxy)
	got := s.get(t, "/cosmos/circuit/v1/disable_list")
	expect.Equal(t, got.status, http.StatusNotImplemented, "status")
	d.check(t, d.operation(t, "circuit_disabled"), got.status, got.header, got.body)
}

func TestBatchMatchesTheDocument(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{})
	d := readContract(t, s.Config.Handler)
	op := d.operation(t, "batch")
	got := s.get(t, batchOf(poolPath, paramsPath))
	got.expect(t, http.StatusOK)
	d.check(t, op, got.status, got.header, got.body)
	described := map[any]bool{}
	for _, p := range op.body["parameters"].([]any) {
		described[d.at(p, "name")] = true
	}
	for _, name := range []string{"x-block-height", "x-min-block-height", "x-min-evm-block", "X-Block-Height"} {
		if !described[name] {
			t.Errorf("batch has no parameter %s", name)
		}
	}
}

// The name of a golden file begins with the id of its operation.
func TestGoldenResponsesMatchTheDocument(t *testing.T) {
	chain := readContract(t, startChain(t, proxy.Options{}).Config.Handler)
	files := expect.Value(filepath.Glob("testdata/golden/*.*.http"))(t)
	if len(files) == 0 {
		t.Fatal("no files in testdata/golden")
	}
	for _, file := range files {
		id, _, _ := strings.Cut(filepath.Base(file), ".")
		head, body, _ := strings.Cut(readFile(t, file), "\n\n")
		code, _, _ := strings.Cut(head, "\n")
		t.Run(filepath.Base(file), func(t *testing.T) { chain.validate(t, chain.operation(t, id), code, body) })
	}
	list := readContract(t, startList(t, listing.Options{}).Config.Handler)
	for file, code := range map[string]string{"page.json": "200", "violations.json": "422"} {
		list.validate(t, list.operation(t, "collections"), code, readFile(t, "testdata/collections/"+file))
	}
}

func TestResponsesOfTheListingMatchTheDocument(t *testing.T) {
	t.Parallel()
	s := startList(t, listing.Options{Metadata: fakeProvider{strings.ToLower(wow): wowMetadata}})
	d := readContract(t, s.Config.Handler)
	op := d.operation(t, "collections")
	res, page := s.post(t, `{}`)
	d.check(t, op, res.StatusCode, res.Header, page)
	tests := []struct {
		name, body string
		headers    []string
		status     int
	}{
		{"current ETag", `{}`, []string{"If-None-Match", res.Header.Get("Etag")}, 304},
		{"no body", ``, nil, 400},
		{"malformed JSON", `{`, nil, 400},
		{"no key", `{}`, []string{"X-Api-Key", ""}, 401},
		{"too large", strings.Repeat(" ", 2<<20), nil, 413},
		{"another type", `{}`, []string{"Content-Type", "text/plain"}, 415},
		{"violations", `{"orderBy":5,"pagination":{"limit":{}},"x":[]}`, nil, 422},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, body := s.post(t, tt.body, tt.headers...)
			expect.Equal(t, res.StatusCode, tt.status, "status")
			d.check(t, op, res.StatusCode, res.Header, body)
		})
	}
	s.store.failWith(errUnreachable)
	res, body := s.post(t, `{"pagination":{"limit":7}}`)
	d.check(t, op, res.StatusCode, res.Header, body)
}

func TestParametersThatMatchTheirSchemasAreAccepted(t *testing.T) {
	t.Parallel()
	candidates := []string{
		val5, strings.ToUpper(val5), val5Bech32, del0Bech32, val5[2:], "0x12", "1", "3", "4", "007", "-1", "1.5", "true", "TRUE", "maybe", "bonded",
		"BOND_STATUS_BONDED", "stake", "0x0320b5268d4d2367c052d0a0acb3cb7a3dd4496dfc656d47f91c852e1a0452b171", "18446744073709551616",
	}
	s := startChain(t, proxy.Options{})
	d := readContract(t, s.Config.Handler)
	for _, op := range d.operations() {
		params, _ := op.body["parameters"].([]any)
		for i := range params {
			p := d.at(params[i]).(map[string]any)
			name, in := p["name"].(string), p["in"].(string)
			if in == "header" || name == "pagination.key" {
				continue
			}
			schema := d.schema(t, d.schemaPath(op, i))
			for _, value := range candidates {
				fits := schema.Validate(typed(value, p)) == nil
				if !fits && value != "maybe" { // the server reads some values that the schema does not name, such as TRUE
					continue
				}
				if got := s.get(t, d.target(op, name, value)); fits == (got.status == http.StatusBadRequest) {
					t.Errorf("%s: response to %s = %s is %s; it fits the schema: %t (the kind is in story/parameters.go)", op.id, name, value, got.body, fits)
				}
			}
		}
	}
}

func TestOperationsParametersAndSchemasHaveDescriptions(t *testing.T) {
	s := startList(t, listing.Options{})
	d := readContract(t, s.Config.Handler)
	for _, op := range d.operations() {
		for _, name := range []string{"summary", "operationId", "tags", "responses"} {
			if op.body[name] == nil {
				t.Errorf("%s has no %s", op.path, name)
			}
		}
		for _, p := range op.body["parameters"].([]any) {
			if text, _ := d.at(p, "description").(string); text == "" {
				t.Errorf("%s: parameter %v has no description", op.id, d.at(p, "name"))
			}
		}
	}
	for _, name := range []string{"Validator", "DelegationEntry", "PeriodDelegation", "Reward", "Coin", "DecCoin", "Pagination", "RedelegationRecord", "StakingParams", "DistributionParams", "AuthParams"} {
		schema := d.at(d.doc, "components", "schemas", name)
		if schema == nil || d.at(schema, "description") == nil {
			t.Errorf("schema %s has no description", name)
		}
		d.expectDescriptions(t, name, schema)
	}
}

func TestDocumentDescribesOnlyWhatIsServed(t *testing.T) {
	plain := readContract(t, startChain(t, proxy.Options{}).Config.Handler)
	if plain.at(plain.doc, "paths", listPath) != nil || plain.at(plain.doc, "components", "schemas", "Collection") != nil {
		t.Error("document describes a listing that is not served")
	}
	if plain.at(plain.doc, "components", "securitySchemes") != nil {
		t.Error("document describes a key that is not required")
	}
	open := readContract(t, startList(t, listing.Options{NoAuth: true}).Config.Handler)
	if op := open.operation(t, "collections"); op.body["security"] != nil || open.at(op.body, "responses", "401") != nil {
		t.Error("listing without auth requires a key")
	}
	closed := readContract(t, startList(t, listing.Options{}, func(o *proxy.Options) { o.Chain.Auth = true }).Config.Handler)
	for _, id := range []string{"collections", "validators"} {
		if op := closed.operation(t, id); op.body["security"] == nil || closed.at(op.body, "responses", "401") == nil {
			t.Errorf("operation %s requires no key, want one", id)
		}
	}
	asNode := readContract(t, startChain(t, proxy.Options{Story: story.Options{Shape: story.Node}}).Config.Handler)
	if op := asNode.operation(t, "validators"); asNode.at(op.body, "responses", "404") != nil || asNode.at(op.body, "responses", "500") == nil {
		t.Error("document lacks the node's errors")
	}
}

func TestDocumentAndManualCanBeCachedAndCompressed(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for path, typ := range map[string]string{"/openapi.json": "application/json", "/docs": "text/html; charset=utf-8"} {
		got := s.get(t, path, "Accept-Encoding", "identity")
		got.expectHeader(t, "Content-Type", typ)
		got.expectHeader(t, "Cache-Control", "public, max-age=3600")
		s.get(t, path, "If-None-Match", got.header.Get("Etag")).expect(t, http.StatusNotModified)
		s.get(t, path, "Accept-Encoding", "br").expectHeader(t, "Content-Encoding", "br")
		head := s.do(t, http.MethodHead, path, "")
		head.expect(t, http.StatusOK)
		head.expectHeader(t, "Etag", got.header.Get("Etag"))
		s.do(t, http.MethodPost, path, "").expect(t, http.StatusMethodNotAllowed)
	}
}

// TestDocumentsAreWrittenForLinter writes documents of different options to a directory.
func TestDocumentsAreWrittenForLinter(t *testing.T) {
	dir := os.Getenv("TIPCACHE_TEST_OPENAPI")
	if dir == "" {
		t.Skip("TIPCACHE_TEST_OPENAPI names no directory")
	}
	documents := map[string]http.Handler{
		"everything": startList(t, listing.Options{}, func(o *proxy.Options) { o.Chain.Auth = true }).Config.Handler,
		"open":       startList(t, listing.Options{NoAuth: true}).Config.Handler,
		"chain":      startChain(t, proxy.Options{}).Config.Handler,
		"node":       startChain(t, proxy.Options{Story: story.Options{Shape: story.Node}}).Config.Handler,
	}
	for name, h := range documents {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), readContract(t, h).raw, 0o600))
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	return string(expect.Value(os.ReadFile(path))(t))
}

// typed returns a parameter's value in the type of its schema.
func typed(value string, p map[string]any) any {
	schema := p["schema"].(map[string]any)
	if schema["type"] == "boolean" {
		if b, err := strconv.ParseBool(value); err == nil && value == strconv.FormatBool(b) {
			return b
		}
	}
	return value
}
