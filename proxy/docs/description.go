package docs

import (
	"cmp"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
)

// Version is the version of tipcache: of the program, of what describes its
// interfaces, of the chart and of the TypeScript package, which tests hold against it.
const Version = "1.0.0"

// A description is the OpenAPI document of what a server with its options
// serves. It is made of what serves, so that it cannot say otherwise.
type description struct {
	*huma.OpenAPI
	o          Options
	examples   map[string]example // by operation id
	sdk        sdkExamples        // of a chain of the SDK
	operations []*huma.Operation  // in the order of the table
}

// What references to components begin with.
const (
	schemaRefs    = "#/components/schemas/"
	parameterRefs = "#/components/parameters/"
	headerRefs    = "#/components/headers/"
	responseRefs  = "#/components/responses/"
)

// describe makes the document.
func describe(o Options) (*description, error) {
	examples, err := loadExamples()
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	d := &description{o: o, examples: examples, OpenAPI: &huma.OpenAPI{
		OpenAPI:  "3.1.0",
		Info:     &huma.Info{Title: "tipcache", Version: Version, Description: about(o)},
		Servers:  []*huma.Server{{URL: cmp.Or(o.Base, "/"), Description: "The server that served this document."}},
		Security: []map[string][]string{{}}, // none, where an operation does not say otherwise
		Components: &huma.Components{
			Schemas:    huma.NewMapRegistry(schemaRefs, huma.DefaultSchemaNamer),
			Headers:    map[string]*huma.Header{},
			Parameters: sharedParameters(o),
		},
	}}
	if o.Cosmos != nil { // the examples are of Story's paths, some of whose names are in the other table, too
		d.examples = map[string]example{listingTag: examples[listingTag]}
	}
	if o.Collections != nil {
		d.Components.Schemas = collections.Schemas(schemaRefs)
	}
	d.tag()
	add := d.addChain
	if o.Cosmos != nil {
		add = d.addCosmos
	}
	if err := add(); err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	d.addLive()
	d.addBatch()
	if o.Collections != nil {
		d.addListing()
	}
	return d, nil
}

// tag lists the groups of operations.
func (d *description) tag() {
	for _, t := range tagTexts {
		if listed := t.Name == listingTag; listed && d.o.Collections != nil || !listed && d.o.Cosmos == nil {
			d.Tags = append(d.Tags, &huma.Tag{Name: t.Name, Description: t.Description})
		}
	}
}

func (d *description) add(op *huma.Operation) {
	d.AddOperation(op)
	d.operations = append(d.operations, op)
}

// apiKeyScheme is the name of the security scheme.
const apiKeyScheme = "ApiKey"

// security is what an operation requires.
func (d *description) security(key bool) []map[string][]string {
	if !key {
		return nil
	}
	d.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		apiKeyScheme: {Type: "apiKey", In: "header", Name: limits.KeyHeader, Description: "An API key issued by the operator of this server."},
	}
	return []map[string][]string{{apiKeyScheme: {}}}
}
