package collections

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/jsontext"
)

// Names of the schemas of the bodies, and their suffix as documents of their own. Generated clients have types with these names.
// Story's service names the second CollectionsResponseBodyHuma and the third ErrorModel.
const (
	RequestSchema  = "CollectionQuery"
	PageSchema     = "CollectionPage"
	ProblemSchema  = "Problem"
	documentSuffix = ".json"
)

// schemaNames maps types to their names in schemas.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[listRequest]():         RequestSchema,
	reflect.TypeFor[listPage]():            PageSchema,
	reflect.TypeFor[problem]():             ProblemSchema,
	reflect.TypeFor[listFilters]():         "CollectionFilters",
	reflect.TypeFor[listWindow]():          "CollectionWindow",
	reflect.TypeFor[pageWindow]():          "CollectionPagination",
	reflect.TypeFor[metadataDocument]():    "CollectionMetadata",
	reflect.TypeFor[marketplaceDocument](): "MarketplaceMetadata",
}

// A listSchema validates requests and publishes the schemas of requests and responses. They are derived from the Go types.
type listSchema struct {
	registry huma.Registry
	request  *huma.Schema
}

// newListSchema returns the schemas. Their names have the suffix, and references begin with refs.
func newListSchema(refs, suffix string) *listSchema {
	r := huma.NewMapRegistry(refs, func(t reflect.Type, hint string) string {
		return cmp.Or(schemaNames[t], huma.DefaultSchemaNamer(t, hint)) + suffix
	})
	r.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[metadataDocument]())
	r.Schema(reflect.TypeFor[listPage](), true, "")
	r.Schema(reflect.TypeFor[problem](), true, "")
	return &listSchema{registry: r, request: r.Schema(reflect.TypeFor[listRequest](), true, "")}
}

// schemas serves every document under its name.
func (h *Handler) schemas() (all []web.Route) {
	for name, schema := range h.schema.registry.Map() {
		all = append(all, web.Route{
			Name:    "collections_schema",
			Methods: []string{http.MethodGet, http.MethodHead},
			Pattern: Prefix + name,
			Render:  h.RenderProblem,
			Serve:   serveDocument(cache.NewContent(http.StatusOK, respond.JSON, "", encode(schema), 0)),
		})
	}
	return all
}

func serveDocument(d *cache.Content) web.Handler {
	return func(c *gin.Context, _ *record.Record) error {
		h := c.Writer.Header()
		h.Set("Content-Type", d.Type)
		h.Set("Etag", d.ETag)
		h.Set("Cache-Control", "public, max-age=3600")
		http.ServeContent(c.Writer, c.Request, "", time.Time{}, bytes.NewReader(d.Body))
		return nil
	}
}

// schemaURL returns the URL of a document.
func (h *Handler) schemaURL(r *http.Request, name string) string {
	return h.stack.BaseURL(r) + Prefix + name + documentSuffix
}

// describedBy returns the Link header of a body with the URL of its schema, without scheme and host.
func describedBy(schemaURL string) string {
	if _, place, ok := strings.Cut(schemaURL, "://"); ok {
		schemaURL = place[strings.IndexByte(place, '/'):]
	}
	return "<" + schemaURL + `>; rel="describedBy"`
}

// Schemas returns the schemas of the bodies for a document in which references begin with refs.
func Schemas(refs string) huma.Registry { return newListSchema(refs, "").registry }

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
