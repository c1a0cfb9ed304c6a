package docs

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// listingTag groups the collection listing.
const listingTag = "collections"

// addListing adds the collection listing. Its schemas are in the registry.
func (d *description) addListing() {
	e := d.examples[listingTag]
	d.add(&huma.Operation{
		Method: http.MethodPost, Path: collections.Path, OperationID: "collections", Tags: []string{listingTag},
		Summary: "List collections",
		Description: "One page of collections: ordered, filtered, and with metadata from the provider. One address in the filter looks up one collection. " +
			"An unknown address is not an error. If the provider has no record or fails, `collectionMetadata` is empty. " +
			"`QUERY` (RFC 10008) can be used instead of `POST`. It says that the request is safe and may be repeated. curl, `fetch` in Chromium, nginx and HAProxy pass it on, and Varnish pipes it. None of them caches it.",
		Parameters: referred(respond.MinEVMHeader, ifNoneMatch),
		RequestBody: &huma.RequestBody{
			Required: true, Description: "An object, which may be empty.",
			Content: d.content(respond.JSON, collections.RequestSchema, e.Request),
		},
		Responses: d.listingResponses(e.Answer),
		Security:  d.security(!d.o.Collections.NoAuth),
		// OpenAPI supports QUERY since 3.2
		Extensions: map[string]any{"x-methods": []string{http.MethodPost, web.MethodQuery}},
	})
}

func (d *description) listingResponses(answer json.RawMessage) map[string]*huma.Response {
	all := map[string]*huma.Response{
		"200": {
			Description: "A page of collections.",
			Headers:     d.headersOf(respond.EVMBlockHeader, etagHeader, linkHeader),
			Content:     d.content(respond.JSON, collections.PageSchema, answer),
		},
		"304": {Description: "The client's copy of the page is still current.", Headers: d.headersOf(etagHeader, linkHeader)},
	}
	for _, r := range problemTexts {
		if r.Status == http.StatusUnauthorized && d.o.Collections.NoAuth {
			continue
		}
		all[strconv.Itoa(r.Status)] = &huma.Response{
			Description: r.Doc,
			Headers:     d.headersOf(append(r.headers, linkHeader, acceptQueryHeader)...),
			Content:     d.content(collections.ProblemType, collections.ProblemSchema, collections.ExampleProblem(r.Status, r.error, headerTexts[respond.RequestIDHeader].example)),
		}
	}
	return all
}
