package collections

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/danielgtaylor/huma/v2"
	"github.com/maypok86/otter/v2"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
)

// Bounds of a request body, so that no answer and no key grows with it.
const (
	maxListBody    = web.LargestBody
	maxListMembers = 200 // members of one object; the documented ones are five at most
)

// asked is the listing that a request asks for. Memory is held for its body until that is parsed.
func (h *Handler) asked(w http.ResponseWriter, r *http.Request, tenant string, deadline time.Time) (listing, error) {
	visit := h.stack.VisitBodies(r, tenant)
	defer visit.Leave()
	body, err := readListBody(w, r, visit, deadline)
	if err != nil {
		return listing{}, err
	}
	return h.memo.listing(body, h.schema.parse)
}

// readListBody reads the body to its end or to the request's deadline. A client
// that announces a body and waits for "100 Continue" is refused before it sends.
func readListBody(w http.ResponseWriter, r *http.Request, visit *limits.Visit, deadline time.Time) ([]byte, error) {
	switch {
	case !isJSON(r.Header.Get("Content-Type")):
		return nil, &web.Failure{Status: http.StatusUnsupportedMediaType, Public: "the request body must be application/json"}
	case !isPlain(r.Header["Content-Encoding"]):
		return nil, &web.Failure{Status: http.StatusUnsupportedMediaType, Public: "the request body must not be compressed"}
	case r.ContentLength > maxListBody:
		return nil, tooLarge(maxListBody)
	}
	_ = http.NewResponseController(w).SetReadDeadline(deadline) // a read of a body has no context; fails only where there is no connection
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxListBody), r.ContentLength, visit)
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
		refusal *web.Failure
	)
	switch {
	case errors.As(err, &refusal):
		return err
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
func readAll(r io.Reader, told int64, visit *limits.Visit) ([]byte, error) {
	if told < 0 || told > memoBody {
		return web.ReadBody(r, maxListBody, visit)
	}
	if err := visit.Take(int(told)); err != nil {
		return nil, err
	}
	body := make([]byte, told)
	_, err := io.ReadFull(r, body)
	return body, err
}

// isJSON takes no type at all for JSON, and looks at no parameter: clients send
// such as "application/json; charset", which is malformed and means nothing.
func isJSON(contentType string) bool {
	typ, _, _ := strings.Cut(contentType, ";")
	typ = strings.ToLower(strings.TrimSpace(typ))
	return typ == "" || typ == "application/json" || strings.HasSuffix(typ, "+json")
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
	if !json.Valid(body) {
		return listing{}, malformedBody(json.Unmarshal(body, new(json.RawMessage))) // which says why
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

// validate lists the violations, those of an object's properties by their names.
// Properties that the schema does not know come last, in the order they were sent.
func (s *listSchema) validate(body []byte) (violations, error) {
	v := validator{registry: s.registry}
	v.value(s.request, "body", gjson.Parse(unsafe.String(unsafe.SliceData(body), len(body)))) //nolint:gosec // which is not written; no result outlives it
	return v.found, v.fault
}

// A validator collects what the schema does not allow of a request.
type validator struct {
	registry huma.Registry
	found    violations
	fault    error // what makes the body malformed, though it is JSON
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

// schemaProperty may say anything, as it is ignored.
const schemaProperty = "$schema"

// object takes a null for a property that was not sent. Names match without case,
// and two that match are a fault.
func (v *validator) object(s *huma.Schema, at string, sent gjson.Result) {
	known, seen, unexpected := map[string]gjson.Result{}, map[string]bool{}, violations{}
	sent.ForEach(func(key, value gjson.Result) bool {
		name, property := propertyOf(s, key.Str)
		switch {
		case seen[name]:
			v.fault = fmt.Errorf("duplicate property %s", web.Short(key.Str))
		case len(seen) == maxListMembers:
			v.fault = fmt.Errorf("an object has more than %d properties", maxListMembers)
		case property == nil:
			unexpected = append(unexpected, violation{"unexpected property", at + "." + web.Short(key.Str), excerpt(value.Raw)})
		case name != schemaProperty && value.Type != gjson.Null:
			known[name] = value
		}
		seen[name] = true
		return v.fault == nil
	})
	for _, name := range slices.Sorted(maps.Keys(known)) {
		v.value(s.Properties[name], at+"."+name, known[name])
	}
	v.found = append(v.found, unexpected...)
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

// array looks at one item more than the schema allows, so that a longer list has no
// more violations and takes no more memory.
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

// integer takes a number that no int64 holds for the nearest one.
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

// Bounds of what is remembered of request bodies, in bytes.
const (
	memoBytes   = 4 << 20
	memoBody    = 16 << 10 // of one: 200 addresses fit; a longer one is parsed each time
	memoListing = 256      // what a listing weighs beside the body
)

// A memo knows what bodies ask for, so that the same bytes need not be parsed
// and validated again: a client's pages send the same few over and over. Only
// valid bodies are remembered.
type memo struct {
	listings *otter.Cache[string, listing]
}

func newMemo() memo {
	return memo{otter.Must(&otter.Options[string, listing]{
		MaximumWeight: memoBytes,
		Weigher:       func(body string, l listing) uint32 { return uint32(memoListing + len(body) + 42*len(l.Addresses)) },
	})}
}

// listing is what a body asks for, by parse if it is not remembered.
func (m memo) listing(body []byte, parse func([]byte) (listing, error)) (listing, error) {
	if len(body) > memoBody {
		return parse(body)
	}
	key := string(body)
	if l, ok := m.listings.GetIfPresent(key); ok {
		return l, nil
	}
	l, err := parse(body)
	if err == nil {
		m.listings.Set(key, l)
	}
	return l, err
}
