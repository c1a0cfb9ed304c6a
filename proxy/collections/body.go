package collections

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/web"
)

// Bounds of a request body, so that no answer and no key grows with it.
const (
	maxListBody    = 1 << 20 // bytes
	maxListMembers = 200     // members of one object; the documented ones are five at most
)

// readListBody reads the body to its end or to the request's deadline. A client
// that announces a body and waits for "100 Continue" is refused before it sends.
func readListBody(w http.ResponseWriter, r *http.Request, deadline time.Time) ([]byte, error) {
	switch {
	case !isJSON(r.Header.Get("Content-Type")):
		return nil, &web.Failure{Status: http.StatusUnsupportedMediaType, Public: "the request body must be application/json"}
	case !isPlain(r.Header["Content-Encoding"]):
		return nil, &web.Failure{Status: http.StatusUnsupportedMediaType, Public: "the request body must not be compressed"}
	case r.ContentLength > maxListBody:
		return nil, tooLarge(maxListBody)
	}
	_ = http.NewResponseController(w).SetReadDeadline(deadline) // a read does not look at contexts; fails only where there is no connection
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxListBody), r.ContentLength)
	if err != nil {
		return nil, unreadable(err)
	}
	return body, nil
}

// unreadable says why a body could not be read.
func unreadable(err error) error {
	var (
		limited *http.MaxBytesError
		slow    net.Error
	)
	switch {
	case errors.As(err, &limited):
		return tooLarge(limited.Limit)
	case errors.As(err, &slow) && slow.Timeout():
		return &web.Failure{Status: http.StatusRequestTimeout, Public: "request body read timeout", Err: err}
	default:
		return &web.Failure{Status: http.StatusBadRequest, Public: "cannot read request body", Err: err}
	}
}

func tooLarge(limit int64) error {
	return &web.Failure{Status: http.StatusRequestEntityTooLarge, Public: fmt.Sprintf("request body is too large limit=%d bytes", limit)}
}

// isPlain reports whether a body comes without a content coding.
func isPlain(codings []string) bool {
	return len(codings) == 0 || len(codings) == 1 && (codings[0] == "" || strings.EqualFold(codings[0], "identity"))
}

// readAll reads to the end, into one piece of memory if the length that the
// client told, -1 for none, is credible.
func readAll(r io.Reader, told int64) ([]byte, error) {
	if told < 0 || told > memoBody {
		return io.ReadAll(r)
	}
	body := make([]byte, told)
	_, err := io.ReadFull(r, body)
	return body, err
}

// isJSON takes no type at all for JSON.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	typ, _, err := mime.ParseMediaType(contentType)
	return err == nil && (typ == "application/json" || strings.HasSuffix(typ, "+json"))
}

// parse turns a body into the listing it asks for. It fails with 400 for what
// is not one JSON object free of duplicates, and with 422 and the violations
// for what the schema does not allow.
func (s *listSchema) parse(body []byte) (listing, error) {
	body = bytes.Trim(body, " \t\r\n")
	if len(body) == 0 {
		return listing{}, &web.Failure{Status: http.StatusBadRequest, Public: "request body is required"}
	}
	if !utf8.Valid(body) {
		return listing{}, malformedBody(errors.New("invalid UTF-8"))
	}
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		return listing{}, malformedBody(err)
	}
	found, err := s.validate(body)
	if err != nil {
		return listing{}, malformedBody(err)
	}
	if len(found) > 0 {
		return listing{}, &web.Failure{Status: http.StatusUnprocessableEntity, Public: "validation failed", Err: found}
	}
	request := defaultRequest()
	if err := json.Unmarshal(body, &request); err != nil {
		return listing{}, malformedBody(err)
	}
	return request.listing(), nil
}

func malformedBody(err error) error {
	return &web.Failure{
		Status: http.StatusBadRequest,
		Public: "request body is malformed",
		Err:    violations{{Message: err.Error(), Location: "body"}},
	}
}

// validate lists the violations in the order of the schema; in an object, the
// properties it does not know come last, in the order they were sent.
func (s *listSchema) validate(body []byte) (violations, error) {
	t := tree{registry: s.registry, extras: map[string][]member{}, large: map[string]json.RawMessage{}}
	value := t.value(s.request, "body", gjson.ParseBytes(body))
	if t.fault != nil {
		return nil, t.fault
	}
	var result huma.ValidateResult
	path := huma.NewPathBuffer([]byte("body"), len("body"))
	huma.Validate(s.registry, s.request, path, huma.ModeWriteToServer, value, &result)
	return t.violations(result.Errors), nil
}

// A tree turns valid JSON into what huma validates: maps with the names of the
// schema, slices and scalars. What the schema has no use for stays raw.
type tree struct {
	registry huma.Registry
	extras   map[string][]member        // unexpected properties, by the location of their object
	large    map[string]json.RawMessage // integers that no int64 holds, by their location
	fault    error                      // what makes the body malformed, though it is JSON
}

// schemaProperty may say anything, as it is ignored.
const schemaProperty = "$schema"

// A member is a property that the schema does not know.
type member struct {
	name  string
	value json.RawMessage
}

// value converts one value. Only an integer becomes a number: all else that
// looks like one stays raw, and is thereby "expected integer".
func (t *tree) value(s *huma.Schema, at string, v gjson.Result) any {
	for s.Ref != "" {
		s = t.registry.SchemaFromRef(s.Ref)
	}
	switch {
	case v.Type == gjson.String:
		return v.Str
	case v.Type == gjson.Null:
		return nil
	case v.IsBool():
		return v.Bool()
	case v.IsObject() && s.Type == huma.TypeObject:
		return t.object(s, at, v)
	case v.IsArray() && s.Type == huma.TypeArray:
		return t.array(s, at, v)
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	switch {
	case err == nil:
		return n
	case errors.Is(err, strconv.ErrRange) && (s.Maximum != nil && n > 0 || s.Minimum != nil && n < 0):
		t.large[at] = json.RawMessage(v.Raw)
		return n // beyond the schema's bounds, as what was sent is
	}
	return json.RawMessage(v.Raw)
}

// object renames the members to the names of the schema, which match without
// case, and finds fault with two of one name. huma's path does not survive a
// dot in a name, so the unexpected ones are hidden from it behind a number.
func (t *tree) object(s *huma.Schema, at string, v gjson.Result) map[string]any {
	object, seen := map[string]any{}, map[string]bool{}
	v.ForEach(func(key, value gjson.Result) bool {
		name, property := propertyOf(s, key.Str)
		switch {
		case seen[name]:
			t.fault = fmt.Errorf("duplicate property %s", web.Short(key.Str))
		case len(seen) == maxListMembers:
			t.fault = fmt.Errorf("an object has more than %d properties", maxListMembers)
		case property == nil:
			object["#"+strconv.Itoa(len(object))] = nil
			t.extras[at] = append(t.extras[at], member{key.Str, json.RawMessage(value.Raw)})
		case name == schemaProperty:
		default:
			object[name] = t.value(property, at+"."+name, value)
		}
		seen[name] = true
		return t.fault == nil
	})
	return object
}

// propertyOf finds the property a name means; nil if there is none.
func propertyOf(s *huma.Schema, name string) (string, *huma.Schema) {
	for declared, property := range s.Properties {
		if strings.EqualFold(declared, name) {
			return declared, property
		}
	}
	return name, nil
}

// array keeps one item more than the schema allows: enough to be refused for,
// and no more violations than a list of the right length could have.
func (t *tree) array(s *huma.Schema, at string, v gjson.Result) []any {
	items := []any{}
	v.ForEach(func(_, item gjson.Result) bool {
		items = append(items, t.value(s.Items, at+"["+strconv.Itoa(len(items))+"]", item))
		return t.fault == nil && (s.MaxItems == nil || len(items) <= *s.MaxItems)
	})
	return items
}
