package collections

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/danielgtaylor/huma/v2"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/jsontext"
)

// parse parses a body into a listing. It fails with 400 if the body is not a JSON object without duplicate members, and with 422
// and the violations if the schema does not allow it.
func (s *listSchema) parse(body []byte) (listing, error) {
	body = bytes.Trim(body, " \t\r\n")
	if len(body) == 0 {
		return listing{}, errNoBody
	}
	if !utf8.Valid(body) {
		return listing{}, malformedBody(errors.New("invalid UTF-8"))
	}
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
		return listing{}, malformedBody(errors.New("it begins with a byte order mark"))
	}
	if !jsontext.Valid(body) {
		return listing{}, malformedBody(json.Unmarshal(body, new(json.RawMessage))) // returns the reason
	}
	found, err := s.validate(body)
	if err != nil {
		return listing{}, malformedBody(err)
	}
	if len(found) > 0 {
		return listing{}, &failure.Failure{Status: http.StatusUnprocessableEntity, Public: "validation failed", Err: found}
	}
	request := defaultRequest()
	if err := json.Unmarshal(body, &request); err != nil {
		return listing{}, malformedBody(err)
	}
	return request.listing(), nil
}

// validate returns the violations, ordered by property name. Unknown properties come last, in their original order.
func (s *listSchema) validate(body []byte) (violations, error) {
	v := validator{registry: s.registry}
	v.value(s.request, "body", gjson.Parse(unsafe.String(unsafe.SliceData(body), len(body)))) //nolint:gosec // read-only, and no result outlives it
	return v.found, v.fault
}

// A validator collects the violations of a request.
type validator struct {
	registry huma.Registry
	found    violations
	fault    error // why the body is malformed although it is JSON
}

func (v *validator) add(at, message string, sent gjson.Result) {
	v.found = append(v.found, violation{message, at, echo(sent)})
}

func (v *validator) value(s *huma.Schema, at string, sent gjson.Result) {
	for s.Ref != "" {
		s = v.registry.SchemaFromRef(s.Ref)
	}
	switch {
	case s.Type == huma.TypeObject && sent.IsObject():
		v.object(s, at, sent)
	case s.Type == huma.TypeArray && sent.IsArray():
		v.array(s, at, sent)
	case s.Type == huma.TypeInteger && sent.Type == gjson.Number:
		v.integer(s, at, sent)
	case s.Type != huma.TypeString || sent.Type != gjson.String:
		v.add(at, "expected "+s.Type, sent)
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, any(sent.Str)):
		v.add(at, fmt.Sprintf(`expected value to be one of "%s"`, strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Enum), "[]"), " ", ", ")), sent)
	}
}

// schemaProperty may have any value, because it is ignored.
const schemaProperty = "$schema"

// object treats null like an absent property. Names match case-insensitively, and duplicates are a fault.
func (v *validator) object(s *huma.Schema, at string, sent gjson.Result) {
	var (
		seen       []string
		known      []property
		unexpected violations
	)
	sent.ForEach(func(key, value gjson.Result) bool {
		name, schema := propertyOf(s, key.Str)
		switch {
		case slices.Contains(seen, name):
			v.fault = fmt.Errorf("duplicate property %s", web.Short(key.Str))
		case len(seen) == maxListMembers:
			v.fault = fmt.Errorf("an object has more than %d properties", maxListMembers)
		case schema == nil:
			unexpected = append(unexpected, violation{"unexpected property", at + "." + web.Short(key.Str), excerpt(value.Raw)})
		case name != schemaProperty && value.Type != gjson.Null:
			known = append(known, property{name, schema, value})
		}
		seen = append(seen, name)
		return v.fault == nil
	})
	slices.SortFunc(known, func(p, q property) int { return cmp.Compare(p.name, q.name) })
	for _, p := range known {
		v.value(p.schema, at+"."+p.name, p.value)
	}
	v.found = append(v.found, unexpected...)
}

// A property is a documented property of an object in a request.
type property struct {
	name   string
	schema *huma.Schema
	value  gjson.Result
}

// propertyOf returns the property with a name, or nil.
func propertyOf(s *huma.Schema, name string) (string, *huma.Schema) {
	if property, ok := s.Properties[name]; ok {
		return name, property
	}
	for declared, property := range s.Properties {
		if strings.EqualFold(declared, name) {
			return declared, property
		}
	}
	return name, nil
}

// array checks at most one item more than the schema allows, so that longer lists cause no more violations and use no more
// memory.
func (v *validator) array(s *huma.Schema, at string, sent gjson.Result) {
	var items []gjson.Result
	sent.ForEach(func(_, item gjson.Result) bool {
		items = append(items, item)
		return s.MaxItems == nil || len(items) <= *s.MaxItems
	})
	if s.MaxItems != nil && len(items) > *s.MaxItems {
		v.add(at, fmt.Sprintf("expected array length <= %d", *s.MaxItems), sent)
	}
	for i, item := range items {
		v.value(s.Items, at+"["+strconv.Itoa(i)+"]", item)
	}
}

// integer replaces a number beyond int64 by the nearest int64.
func (v *validator) integer(s *huma.Schema, at string, sent gjson.Result) {
	n, err := strconv.ParseInt(sent.Raw, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax): // a fraction, or an exponent
		v.add(at, "expected integer", sent)
	case s.Maximum != nil && float64(n) > *s.Maximum:
		v.add(at, fmt.Sprintf("expected number <= %v", *s.Maximum), sent)
	case s.Minimum != nil && float64(n) < *s.Minimum:
		v.add(at, fmt.Sprintf("expected number >= %v", *s.Minimum), sent)
	case err != nil:
		v.add(at, "expected integer", sent)
	}
}
