package proxy_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// contract is the OpenAPI document as a client reads it.
type contract struct {
	raw     []byte
	doc     map[string]any
	schemas *jsonschema.Compiler
}

// readContract requests the document.
func readContract(tb testing.TB, h http.Handler) contract {
	tb.Helper()
	raw := serveGET(h, "/openapi.json", "").Body.Bytes()
	doc := expect.Value(jsonschema.UnmarshalJSON(bytes.NewReader(raw)))(tb)
	d := contract{raw: raw, doc: doc.(map[string]any), schemas: jsonschema.NewCompiler()}
	d.schemas.AssertFormat()
	expect.NoError(tb, d.schemas.AddResource("openapi.json", doc))
	return d
}

// at returns the value at a path of the document, and follows references. It returns nil if there is none.
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

// operation is an operation of the document.
type operation struct {
	id, method, path string
	body             map[string]any
}

// operations returns all operations except /live, whose response is a stream.
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

// operation returns the operation with an id.
func (d contract) operation(t *testing.T, id string) operation {
	t.Helper()
	for _, op := range d.operations() {
		if op.id == id {
			return op
		}
	}
	t.Fatalf("no operation has the id %s", id)
	return operation{}
}

var placeholder = regexp.MustCompile(`\\\{[a-z_]+\\\}`)

func (op operation) matches(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	pattern := placeholder.ReplaceAllString(regexp.QuoteMeta(op.path), "[^/]+")
	return regexp.MustCompile("^" + pattern + "$").MatchString(path)
}

func (d contract) findOperation(target string) (operation, bool) {
	for _, op := range d.operations() {
		if op.method == http.MethodGet && op.matches(target) {
			return op, true
		}
	}
	return operation{}, false
}

// commonHeaders need no description in an operation.
var commonHeaders = map[string]bool{"Content-Type": true, "Content-Length": true, "Date": true, "Vary": true}

// check fails the test where a response differs from its description.
func (d contract) check(t *testing.T, op operation, status int, header http.Header, body string) {
	t.Helper()
	code := strconv.Itoa(status)
	response, _ := d.at(op.body, "responses", code).(map[string]any)
	if response == nil {
		t.Errorf("%s: status = %s, want a documented one", op.id, code)
		return
	}
	for name := range header {
		if cors := strings.HasPrefix(name, "Access-Control-"); !cors && !commonHeaders[name] && !hasFold(response["headers"], name) {
			t.Errorf("%s: header %s of status %s has no description", op.id, name, code)
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
		t.Errorf("%s: status %s has no content in the document", op.id, code)
		return
	}
	for typ := range content {
		if typ != stream.EventType { // the alternative form of the response
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
		t.Errorf("body = %.300s, want it to match its schema: %v", text, err)
	}
}

// schema compiles the schema at a path of the document.
func (d contract) schema(t *testing.T, at []string) *jsonschema.Schema {
	t.Helper()
	pointer := ""
	for _, name := range at {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return expect.Value(d.schemas.Compile("openapi.json#" + pointer))(t)
}

// schemaPath returns the path of the schema of an operation's parameter in the document.
func (d contract) schemaPath(op operation, i int) []string {
	p := op.body["parameters"].([]any)[i].(map[string]any)
	if ref, isRef := p["$ref"].(string); isRef {
		return append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), "schema")
	}
	return []string{"paths", op.path, strings.ToLower(op.method), "parameters", strconv.Itoa(i), "schema"}
}

// target returns a request target that gives one parameter a value. Other required parameters have their examples.
func (d contract) target(op operation, name, value string) string {
	path, query := op.path, url.Values{}
	for _, ref := range op.body["parameters"].([]any) {
		p := d.at(ref).(map[string]any)
		known := fmt.Sprint(p["name"])
		if p["required"] == true && known != name {
			values, isList := p["example"].([]any)
			if !isList {
				values = []any{p["example"]}
			}
			for _, value := range values {
				path = strings.ReplaceAll(path, "{"+known+"}", url.PathEscape(fmt.Sprint(value)))
				query.Add(known, fmt.Sprint(value))
			}
		}
	}
	query.Set(name, value)
	return strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value)) + "?" + query.Encode()
}

// expectDescriptions fails the test for each member of a schema, at any depth, without a description.
func (d contract) expectDescriptions(t *testing.T, at string, schema any) {
	t.Helper()
	s, _ := schema.(map[string]any)
	if items := s["items"]; items != nil {
		d.expectDescriptions(t, at, items)
	}
	members, _ := s["properties"].(map[string]any)
	for name, member := range members {
		if text, _ := member.(map[string]any)["description"].(string); text == "" {
			t.Errorf("%s.%s has no description", at, name)
		}
		d.expectDescriptions(t, at+"."+name, member)
	}
}
