package proxy_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A contract is the OpenAPI document as a client reads it.
type contract struct {
	raw     []byte
	doc     map[string]any
	schemas *jsonschema.Compiler
}

// readDescription asks for the document.
func readDescription(tb testing.TB, h http.Handler) contract {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/openapi.json", nil))
	if w.Code != http.StatusOK {
		tb.Fatalf("status %d: %s", w.Code, w.Body)
	}
	raw := w.Body.Bytes()
	doc := expect.Value(jsonschema.UnmarshalJSON(bytes.NewReader(raw)))(tb)
	d := contract{raw: raw, doc: doc.(map[string]any), schemas: jsonschema.NewCompiler()}
	d.schemas.AssertFormat()
	expect.NoError(tb, d.schemas.AddResource("openapi.json", doc))
	return d
}

// at walks down the document, through references. It is nil where there is nothing.
func (d contract) at(from any, names ...string) any {
	for _, name := range names {
		from = d.resolve(from)
		switch v := from.(type) {
		case map[string]any:
			from = v[name]
		case []any:
			i, _ := strconv.Atoi(name)
			from = v[i]
		default:
			return nil
		}
	}
	return d.resolve(from)
}

func (d contract) resolve(v any) any {
	for {
		m, _ := v.(map[string]any)
		ref, isRef := m["$ref"].(string)
		if !isRef {
			return v
		}
		v = d.at(d.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
}

// An operation is one as it stands in the document.
type operation struct {
	id, method, path string
	body             map[string]any
}

// operations are those that are answered once: a stream has no one answer, and
// its own tests.
func (d contract) operations() (all []operation) {
	for path, item := range d.doc["paths"].(map[string]any) {
		if path == stream.LivePath {
			continue
		}
		for method, body := range item.(map[string]any) {
			b := body.(map[string]any)
			all = append(all, operation{fmt.Sprint(b["operationId"]), strings.ToUpper(method), path, b})
		}
	}
	return all
}

// operation is the one with the id.
func (d contract) operation(t *testing.T, id string) operation {
	t.Helper()
	for _, op := range d.operations() {
		if op.id == id {
			return op
		}
	}
	t.Fatalf("no operation is called %s", id)
	return operation{}
}

var placeholder = regexp.MustCompile(`\\\{[a-z_]+\\\}`)

func (op operation) matches(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	pattern := placeholder.ReplaceAllString(regexp.QuoteMeta(op.path), "[^/]+")
	return regexp.MustCompile("^" + pattern + "$").MatchString(path)
}

func (d contract) answering(target string) (operation, bool) {
	for _, op := range d.operations() {
		if op.method == http.MethodGet && op.matches(target) {
			return op, true
		}
	}
	return operation{}, false
}

// usual are headers that no operation need speak of.
var usual = map[string]bool{"Content-Type": true, "Content-Length": true, "Date": true, "Vary": true}

// check says where an answer is not as the operation describes it.
func (d contract) check(t *testing.T, op operation, status int, header http.Header, body string) {
	t.Helper()
	code := strconv.Itoa(status)
	response, _ := d.at(op.body, "responses", code).(map[string]any)
	if response == nil {
		t.Errorf("%s may not answer %s", op.id, code)
		return
	}
	for name := range header {
		if cors := strings.HasPrefix(name, "Access-Control-"); !cors && !usual[name] && !hasFold(response["headers"], name) {
			t.Errorf("%s: the header %s of a %s is not described", op.id, name, code)
		}
	}
	if status != http.StatusNotModified {
		d.validate(t, op, code, body)
	}
}

func hasFold(headers any, name string) bool {
	all, _ := headers.(map[string]any)
	for described := range all {
		if strings.EqualFold(described, name) {
			return true
		}
	}
	return false
}

// validate checks a body against the schema of its status.
func (d contract) validate(t *testing.T, op operation, code, body string) {
	t.Helper()
	at := []string{"paths", op.path, strings.ToLower(op.method), "responses", code}
	response, _ := d.at(op.body, "responses").(map[string]any)[code].(map[string]any)
	if ref, isRef := response["$ref"].(string); isRef {
		at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	}
	content, _ := d.at(d.doc, append(at, "content")...).(map[string]any)
	if len(content) == 0 {
		t.Errorf("%s: a %s has no body", op.id, code)
		return
	}
	for typ := range content {
		if typ != stream.EventType { // the other form of the answer
			d.validateAt(t, append(at, "content", typ, "schema"), body)
		}
	}
}

// validateAt checks a JSON text against a schema.
func (d contract) validateAt(t *testing.T, at []string, text string) {
	t.Helper()
	schema := d.schema(t, at)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%v\n%.300s", err, text)
	}
}

// schema compiles the one at a place.
func (d contract) schema(t *testing.T, at []string) *jsonschema.Schema {
	t.Helper()
	pointer := ""
	for _, name := range at {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	schema := expect.Value(d.schemas.Compile("openapi.json#" + pointer))(t)
	return schema
}

// place is where the schema of an operation's parameter stands.
func (d contract) place(op operation, i int) []string {
	p := op.body["parameters"].([]any)[i].(map[string]any)
	if ref, isRef := p["$ref"].(string); isRef {
		return append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), "schema")
	}
	return []string{"paths", op.path, strings.ToLower(op.method), "parameters", strconv.Itoa(i), "schema"}
}

// target is what to ask for to give one parameter a value; the others that are
// required have their examples.
func (d contract) target(op operation, name, value string) string {
	path, query := op.path, url.Values{}
	for _, ref := range op.body["parameters"].([]any) {
		p := d.at(ref).(map[string]any)
		known := fmt.Sprint(p["name"])
		if p["required"] == true && known != name {
			value := fmt.Sprint(p["example"])
			path = strings.ReplaceAll(path, "{"+known+"}", url.PathEscape(value))
			query.Set(known, value)
		}
	}
	query.Set(name, value)
	return strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value)) + "?" + query.Encode()
}

// explained says which members, at any depth, have no description.
func (d contract) explained(t *testing.T, at string, schema any) {
	t.Helper()
	s, _ := schema.(map[string]any)
	if items := s["items"]; items != nil {
		d.explained(t, at, items)
	}
	members, _ := s["properties"].(map[string]any)
	for name, member := range members {
		if text, _ := member.(map[string]any)["description"].(string); text == "" {
			t.Errorf("%s.%s is not explained", at, name)
		}
		d.explained(t, at+"."+name, member)
	}
}
