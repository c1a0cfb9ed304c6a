package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
)

// apiPrefix begins every path of the collection interface.
const apiPrefix = "/api/v4/"

// Names of the schemas of the bodies, those of the real service, and what they
// end with as documents of their own.
const (
	pageSchema     = "CollectionsResponseBodyHuma"
	problemSchema  = "ErrorModel"
	documentSuffix = ".json"
)

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
		switch t {
		case reflect.TypeFor[listPage]():
			return pageSchema + suffix
		case reflect.TypeFor[problem]():
			return problemSchema + suffix
		}
		return huma.DefaultSchemaNamer(t, hint) + suffix
	})
	r.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[metadataDocument]())
	r.Schema(reflect.TypeFor[listPage](), true, "")
	r.Schema(reflect.TypeFor[problem](), true, "")
	return &listSchema{registry: r, request: r.Schema(reflect.TypeFor[listRequest](), true, "")}
}

// mount serves every document under its name.
func (s *listSchema) mount(r gin.IRoutes) {
	for name, schema := range s.registry.Map() {
		serve := serveDocument(cache.NewContent(http.StatusOK, jsonType, "", encode(schema), 0))
		r.GET(apiPrefix+name, serve)
		r.HEAD(apiPrefix+name, serve)
	}
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
func (s *Server) schemaURL(r *http.Request, name string) string {
	return s.baseURL(r) + apiPrefix + name + documentSuffix
}

// baseURL is our public address if one is configured, else where the client
// has just found us; "" if that cannot be told.
func (s *Server) baseURL(r *http.Request) string {
	switch {
	case s.o.Collections != nil && s.o.Collections.PublicURL != "":
		return strings.TrimSuffix(s.o.Collections.PublicURL, "/")
	case !isHost(r.Host):
		return ""
	case r.TLS != nil:
		return "https://" + r.Host
	default:
		return "http://" + r.Host
	}
}

// isHost keeps what a URL could not hold out of ours: the Host header is the
// client's.
func isHost(host string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]"
	return host != "" && len(host) < 260 && strings.Trim(host, allowed) == ""
}

// describedBy is the Link header of a body.
func describedBy(schema string) string {
	return "<" + apiPrefix + schema + documentSuffix + `>; rel="describedBy"`
}
