package docs

import (
	"cmp"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
)

// Version is the version of the program, its API documents, the chart and the TypeScript package. Tests check that they
// agree.
const Version = "1.0.0"

// A description is the OpenAPI document of a server with its options. It is derived from the route tables and from
// openapi.yaml.
type description struct {
	*huma.OpenAPI
	o          Options
	parts      parts
	examples   map[string]example      // by operation id
	sdk        sdkExamples             // of a Cosmos SDK chain
	messages   map[string]*huma.Schema // msg by row of Story, for rows without a documented shape
	operations []*huma.Operation       // in the order of the route table
}

// Prefixes of references to components.
const (
	schemaRefs    = "#/components/schemas/"
	parameterRefs = "#/components/parameters/"
	headerRefs    = "#/components/headers/"
	responseRefs  = "#/components/responses/"
)

// describe builds the document.
func describe(o Options) *description {
	examples := loadExamples()
	d := &description{o: o, parts: loadParts(), examples: examples, OpenAPI: &huma.OpenAPI{
		OpenAPI:  "3.1.0",
		Info:     &huma.Info{Title: "tipcache", Version: Version},
		Servers:  []*huma.Server{{URL: cmp.Or(o.Base, "/"), Description: "The server that served this document."}},
		Security: []map[string][]string{{}}, // none, unless an operation says otherwise
		Components: &huma.Components{
			Schemas:    huma.NewMapRegistry(schemaRefs, huma.DefaultSchemaNamer),
			Headers:    map[string]*huma.Header{},
			Parameters: map[string]*huma.Param{},
		},
	}}
	d.Info.Description = d.about()
	if o.Cosmos != nil { // the examples belong to Story's paths, and some names are in both tables
		d.examples = map[string]example{listingTag: examples[listingTag]}
	}
	if o.Collections != nil {
		d.Components.Schemas = collections.Schemas(schemaRefs)
	}
	d.addTags()
	d.addSharedParameters()
	if o.Cosmos != nil {
		d.addCosmos()
	} else {
		d.addChain()
	}
	d.addLive()
	d.addBatch()
	if o.Collections != nil {
		d.addListing()
	}
	return d
}

// must panics if err is not nil. Only an invalid embedded file can cause an error, and tests read all of these files.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// addTags lists the groups of operations.
func (d *description) addTags() {
	for _, t := range d.parts.Tags {
		if listed := t.Name == listingTag; listed && d.o.Collections != nil || !listed && d.o.Cosmos == nil {
			d.Tags = append(d.Tags, t)
		}
	}
}

func (d *description) add(op *huma.Operation) {
	d.AddOperation(op)
	d.operations = append(d.operations, op)
}

// apiKeyScheme is the name of the security scheme.
const apiKeyScheme = "ApiKey"

// security returns the security requirement of an operation.
func (d *description) security(key bool) []map[string][]string {
	if !key {
		return nil
	}
	d.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		apiKeyScheme: {Type: "apiKey", In: "header", Name: limits.KeyHeader, Description: "An API key issued by the operator of this server."},
	}
	return []map[string][]string{{apiKeyScheme: {}}}
}
