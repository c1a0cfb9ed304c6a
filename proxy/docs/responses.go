package docs

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// Names of documented headers in their usual case.
const (
	etagHeader         = "ETag"
	ifNoneMatch        = "If-None-Match"
	cacheControlHeader = "Cache-Control"
	cacheStatusHeader  = "Cache-Status"
	ageHeader          = "Age"
	linkHeader         = "Link"
	retryAfterHeader   = "Retry-After"
	rateLimitHeader    = "RateLimit"
	ratePolicyHeader   = "RateLimit-Policy"
	authenticateHeader = "WWW-Authenticate"
	acceptHeader       = "Accept"
	acceptCodingHeader = "Accept-Encoding"
	acceptQueryHeader  = "Accept-Query"
)

// headersOf returns references to the headers that any response may have, and to the given ones.
func (d *description) headersOf(own ...string) map[string]*huma.Header {
	all := map[string]*huma.Header{}
	for _, name := range append(own, cacheControlHeader, ageHeader, cacheStatusHeader, respond.RequestIDHeader, respond.UnknownHeader, rateLimitHeader, ratePolicyHeader) {
		all[name] = d.header(name)
	}
	return all
}

// header adds a header to the components and returns a reference to it.
func (d *description) header(name string) *huma.Header {
	text := headerTexts[name]
	h := &huma.Header{Description: text.doc, Schema: &huma.Schema{Type: huma.TypeString}, Example: text.example}
	if n, err := strconv.ParseInt(text.example, 10, 64); err == nil {
		h.Schema, h.Example = &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, n
	}
	d.Components.Headers[name] = h
	return &huma.Header{Ref: headerRefs + name}
}

// A refusalText describes an error status.
type refusalText struct {
	Status  int
	Doc     string
	error   string   // example; "" for a status without a body
	headers []string // headers that only this status has
}

// component returns the name of the response's component.
func (r refusalText) component() string {
	return strings.ReplaceAll(http.StatusText(r.Status), " ", "")
}

// Refusals returns the error statuses of the chain API.
func (d *description) Refusals() []refusalText {
	var all []refusalText
	for _, r := range refusalTexts {
		switch {
		case r.Status == http.StatusUnauthorized && !d.o.Chain.Auth:
		case r.Status == http.StatusNotFound && d.o.Chain.Shape == story.Node: // a node answers 500 instead
		case r.Status == http.StatusInternalServerError && d.o.Chain.Shape != story.Node:
		default:
			all = append(all, r)
		}
	}
	return all
}

// addRefusals adds them to the components.
func (d *description) addRefusals() {
	d.Components.Responses = map[string]*huma.Response{}
	body := story.ErrorEnvelope
	if d.o.Cosmos != nil {
		body = cosmos.ErrorBody
	}
	for _, r := range d.Refusals() {
		response := &huma.Response{Description: r.Doc, Headers: d.headersOf(append(r.headers, respond.HeightHeader, session.Header, session.ResetHeader)...)}
		if r.error != "" {
			response.Content = d.content(respond.JSON, "Refusal", json.RawMessage(body(r.Status, r.error)))
		}
		d.Components.Responses[r.component()] = response
	}
}

// content returns a body whose schema is a component. A nil example means none.
func (d *description) content(typ, schema string, example any) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{typ: {Schema: &huma.Schema{Ref: schemaRefs + schema}, Example: example}}
}

// chainHeaders returns the request headers of all chain queries.
func chainHeaders(o Options) []string {
	if o.Cosmos != nil {
		return []string{respond.HeightHeader, respond.MinHeightHeader, session.Header, ifNoneMatch}
	}
	return []string{respond.HeightHeader, respond.MinHeightHeader, respond.MinEVMHeader, session.Header, ifNoneMatch}
}

// urlHeights returns the query parameters of all chain queries.
func urlHeights(o Options) []string {
	if o.Cosmos != nil {
		return []string{blocks.HeightParameter, blocks.MinHeightParameter}
	}
	return []string{blocks.HeightParameter, blocks.MinHeightParameter, web.MinEVMParameter}
}

// urlHeightNames are the names of urlHeights in generated Go clients, which differ from those of the headers.
var urlHeightNames = []string{"URLBlockHeight", "URLMinBlockHeight", "URLMinEvmBlock"}

// sharedParameters returns the parameters that many operations have.
func sharedParameters(o Options) map[string]*huma.Param {
	all := map[string]*huma.Param{}
	for _, name := range append(urlHeights(o), dialect.PageNames[:]...) {
		all[name] = &huma.Param{Name: name, In: "query"}
	}
	for i, name := range urlHeights(o) {
		all[name].Extensions = map[string]any{"x-go-name": urlHeightNames[i]}
	}
	all[stream.SinceParameter] = &huma.Param{Name: stream.SinceParameter, In: "query"}
	headers := chainHeaders(o)
	if o.Collections != nil {
		headers = append(headers, respond.MinEVMHeader)
	}
	for _, name := range headers {
		all[name] = &huma.Param{Name: name, In: "header"}
	}
	for name, p := range all {
		text := parameterTexts[name]
		p.Description, p.Schema = text.doc, &text.schema
	}
	switch {
	case o.Cosmos != nil:
		all[dialect.PageKey].Description = "The `next_key` of the previous page, percent-encoded. Cannot be combined with `pagination.offset`."
	case o.Chain.Shape == story.Documented:
		all[dialect.PageLimit].Description += " At most " + strconv.Itoa(story.MaxPageLimit) + "."
	default:
		all[dialect.PageKey].Description = "The `next_key` of the previous page, decoded from base64. Cannot be combined with `pagination.offset`."
	}
	return all
}
