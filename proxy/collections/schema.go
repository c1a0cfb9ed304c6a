package collections

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	store "github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
)

// Names of the schemas of the bodies, and the suffix of their documents. Generated clients have types with these names.
// Story's service names the second CollectionsResponseBodyHuma and the third ErrorModel.
const (
	RequestSchema  = "CollectionQuery"
	PageSchema     = "CollectionPage"
	ProblemSchema  = "Problem"
	documentSuffix = ".json"
)

var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[listRequest]():          RequestSchema,
	reflect.TypeFor[listPage]():             PageSchema,
	reflect.TypeFor[problem]():              ProblemSchema,
	reflect.TypeFor[store.ListFilters]():    "CollectionFilters",
	reflect.TypeFor[store.ListWindow]():     "CollectionWindow",
	reflect.TypeFor[pageWindow]():           "CollectionPagination",
	reflect.TypeFor[metadata.Contract]():    "CollectionMetadata",
	reflect.TypeFor[metadata.Marketplace](): "MarketplaceDocument",
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
	r.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[metadata.Contract]())
	r.RegisterTypeAlias(reflect.TypeFor[metadata.Number](), reflect.TypeFor[float64]())
	r.Schema(reflect.TypeFor[listPage](), true, "")
	r.Schema(reflect.TypeFor[problem](), true, "")
	return &listSchema{registry: r, request: r.Schema(reflect.TypeFor[listRequest](), true, "")}
}

// schemas serves every document under its name.
func (h *Handler) schemas() (all []web.Route) {
	for name, schema := range h.schema.registry.Map() {
		d := cache.NewContent(http.StatusOK, respond.JSON, "", encode(schema), 0)
		all = append(all, web.Route{
			Name:    "collections_schema",
			Methods: []string{http.MethodGet, http.MethodHead},
			Pattern: Prefix + name,
			Render:  h.RenderProblem,
			Serve: func(r *web.Request) error {
				h := r.ResponseHeader
				h.Set("Content-Type", d.Type)
				h.Set("Etag", d.ETag)
				h.Set("Cache-Control", "public, max-age=3600")
				http.ServeContent(r.Writer, r.Request, "", time.Time{}, bytes.NewReader(d.Body))
				return nil
			},
		})
	}
	return all
}

func (h *Handler) schemaURL(r *web.Request, name string) string {
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
