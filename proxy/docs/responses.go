package docs

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
)

// Names of documented headers in their usual case.
const (
	etagHeader        = "ETag"
	ifNoneMatch       = "If-None-Match"
	cacheStatusHeader = "Cache-Status"
	linkHeader        = "Link"
)

// headersOf returns references to the headers that any response may have, and to the given ones.
func (d *description) headersOf(own ...string) map[string]*huma.Header {
	all := map[string]*huma.Header{}
	for _, name := range append(own, "Cache-Control", "Age", cacheStatusHeader, respond.RequestIDHeader, respond.UnknownHeader, "RateLimit", "RateLimit-Policy") {
		all[name] = d.header(name)
	}
	return all
}

// header adds a header to the components and returns a reference to it.
func (d *description) header(name string) *huma.Header {
	d.Components.Headers[name] = d.parts.Headers[name]
	return &huma.Header{Ref: headerRefs + name}
}

// component returns the name of the response's component.
func (r refusalText) component() string {
	return strings.ReplaceAll(http.StatusText(r.Status), " ", "")
}

// Refusals returns the error statuses of the chain API.
func (d *description) Refusals() []refusalText {
	never := http.StatusInternalServerError // Story's REST API answers 500 instead of 404, and the documented shape the reverse
	if d.o.Story.Shape == story.Node {
		never = http.StatusNotFound
	}
	var all []refusalText
	for _, r := range d.parts.Statuses {
		switch {
		case r.Status == http.StatusUnauthorized && !d.o.Auth:
		case (r.Status == never || r.Status == http.StatusNotImplemented) && d.o.Cosmos == nil:
		default:
			all = append(all, r)
		}
	}
	return all
}

// addRefusals adds the responses of Refusals to the components.
func (d *description) addRefusals() {
	d.Components.Responses = map[string]*huma.Response{}
	body := story.ErrorEnvelope
	if d.o.Cosmos != nil {
		body = cosmos.ErrorBody
	}
	for _, r := range d.Refusals() {
		response := &huma.Response{Description: r.Doc, Headers: d.headersOf(append(r.Headers, respond.HeightHeader, session.Header, session.ResetHeader)...)}
		if r.Error != "" {
			response.Content = d.content(respond.JSON, "Refusal", json.RawMessage(body(r.Status, r.Error)))
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
		return []string{web.HeightParameter, web.MinHeightParameter}
	}
	return []string{web.HeightParameter, web.MinHeightParameter, web.MinEVMParameter}
}

// parameterComponent returns the name of a shared parameter's component.
func parameterComponent(p *huma.Param) string {
	if name, ok := p.Extensions["x-go-name"].(string); ok {
		return name
	}
	return p.Name
}

// addSharedParameters adds the parameters that many operations have.
func (d *description) addSharedParameters() {
	names := slices.Concat(urlHeights(d.o), dialect.PageNames[:], []string{web.SinceParameter}, chainHeaders(d.o))
	if d.o.Collections != nil {
		names = append(names, respond.MinEVMHeader)
	}
	all := d.parts.Parameters
	for _, name := range names {
		d.Components.Parameters[parameterComponent(all[name])] = all[name]
	}
	switch {
	case d.o.Cosmos != nil:
		all[dialect.PageKey].Description = "The `next_key` of the previous page, percent-encoded. Cannot be combined with `pagination.offset`."
	case d.o.Story.Shape == story.Documented:
		all[dialect.PageLimit].Description += " At most " + strconv.Itoa(story.MaxPageLimit) + "."
	default:
		all[dialect.PageKey].Description = "The `next_key` of the previous page, decoded from base64. Cannot be combined with `pagination.offset`."
	}
}
