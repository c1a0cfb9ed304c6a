package docs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/respond"
)

// listingTag groups the collection listing.
const listingTag = "collections"

// addListing adds the collection listing. Its schemas are in the registry.
func (d *description) addListing() {
	e := d.examples[listingTag]
	op := d.operation(listingTag, collections.Path, !d.o.Collections.NoAuth)
	op.Method, op.Responses = http.MethodPost, d.listingResponses(e.Answer)
	op.RequestBody = &huma.RequestBody{
		Required: true, Description: "An object, which may be empty.",
		Content: d.content(respond.JSON, collections.RequestSchema, e.Request),
	}
	d.add(op)
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
	for _, r := range d.parts.Problems {
		if r.Status == http.StatusUnauthorized && d.o.Collections.NoAuth {
			continue
		}
		all[strconv.Itoa(r.Status)] = &huma.Response{
			Description: r.Doc,
			Headers:     d.headersOf(append(r.Headers, linkHeader, "Accept-Query")...),
			Content:     d.content(collections.ProblemType, collections.ProblemSchema, collections.ExampleProblem(r.Status, r.Error, fmt.Sprint(d.parts.Headers[respond.RequestIDHeader].Example))),
		}
	}
	return all
}
