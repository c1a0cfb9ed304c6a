package collections

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// Names of the schemas of the bodies, and what they end with as documents of
// their own. A generated client has types of these names; the real service calls
// the second CollectionsResponseBodyHuma and the third ErrorModel.
const (
	RequestSchema  = "CollectionQuery"
	PageSchema     = "CollectionPage"
	ProblemSchema  = "Problem"
	documentSuffix = ".json"
)

// schemaNames are the names of the types in schemas.
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

// listSchema validates requests and publishes what describes them and their
// answers. All of it is derived from the Go types.
type listSchema struct {
	registry huma.Registry
	request  *huma.Schema
}

// newListSchema makes the schemas. They are called by their names and the
// suffix, and a reference to one begins with refs.
func newListSchema(refs, suffix string) *listSchema {
	r := huma.NewMapRegistry(refs, func(t reflect.Type, hint string) string {
		return cmp.Or(schemaNames[t], huma.DefaultSchemaNamer(t, hint)) + suffix
	})
	r.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[metadataDocument]())
	r.Schema(reflect.TypeFor[listPage](), true, "")
	r.Schema(reflect.TypeFor[problem](), true, "")
	return &listSchema{registry: r, request: r.Schema(reflect.TypeFor[listRequest](), true, "")}
}

// routes serve every document under its name.
func (s *listSchema) routes() (all []web.Route) {
	for name, schema := range s.registry.Map() {
		all = append(all, web.Route{
			Methods: []string{http.MethodGet, http.MethodHead},
			Pattern: Prefix + name,
			Handler: serveDocument(cache.NewContent(http.StatusOK, web.JSON, "", encode(schema), 0)),
		})
	}
	return all
}

func serveDocument(d *cache.Content) gin.HandlerFunc {
	return func(c *gin.Context) {
		h := c.Writer.Header()
		h.Set("Content-Type", d.Type)
		h.Set("Etag", d.ETag)
		h.Set("Cache-Control", "public, max-age=3600")
		http.ServeContent(c.Writer, c.Request, "", time.Time{}, bytes.NewReader(d.Body))
	}
}

// schemaURL is where a document is served.
func (h *Handler) schemaURL(r *http.Request, name string) string {
	return h.stack.BaseURL(r) + Prefix + name + documentSuffix
}

// describedBy is the Link header of a body.
func describedBy(schema string) string {
	return "<" + Prefix + schema + documentSuffix + `>; rel="describedBy"`
}

// Schemas are the schemas of the bodies for a document in which a reference to
// one begins with refs.
func Schemas(refs string) huma.Registry { return newListSchema(refs, "").registry }
