// Package docs describes the public surface: the OpenAPI document for programs,
// and the manual made of it for people.
//
// handler.go serves both. description.go puts the document together:
//
//   - chain.go makes an operation of every row of the chain's route table, and describes the
//     schemas that shape its answers;
//   - cosmos.go makes one of every row of a chain of the Cosmos SDK;
//   - collections.go describes the collection listing by the schemas that its
//     requests are validated against;
//   - responses.go has what operations share, texts.go and glossary.go say in
//     words what nothing else can, and examples.go finds a real answer for each
//     operation.
//
// manual.go fills the page (manual.html, manual.css) from the document, and
// manual_text.go renders its texts. samples.go
// writes the programs of each operation, and interfaces.go the ones of the RPC and gRPC. live.html
// shows responses as they are streamed.
package docs

import (
	"bytes"
	_ "embed" // the page of streams
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options say what is described: the interfaces as they are configured.
type Options struct {
	Base        string // path below which all paths are; "" for the root
	Chain       chain.Options
	Cosmos      []dialect.Row        // the rows of a chain of the Cosmos SDK; nil for Story
	Collections *collections.Options // nil disables the listing
	Listeners   Listeners            // of the other interfaces
}

// A Handler serves the documents.
type Handler struct {
	o     Options
	stack *web.Stack
	cache *cache.Cache
}

// New makes the handler. The documents are made when first asked for.
func New(o Options, stack *web.Stack, c *cache.Cache) *Handler {
	o.Chain = o.Chain.WithDefaults()
	return &Handler{o, stack, c}
}

// Document is the OpenAPI document, as JSON.
func Document(o Options) ([]byte, error) {
	o.Chain = o.Chain.WithDefaults()
	d, err := describe(o)
	if err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

// Routes are the paths to be mounted.
func (h *Handler) Routes() []web.Route {
	made := sync.OnceValues(func() (*description, error) { return describe(h.o) })
	document := once(made, respond.JSON, func(d *description) ([]byte, error) { return json.Marshal(d) })
	page := once(made, pageType, renderManual)
	live := cache.NewContent(http.StatusOK, pageType, "", []byte(livePage), 0)
	routes := []web.Route{
		h.route("openapi", "/openapi.json", "", func(*gin.Context) (*cache.Content, error) { return document() }),
		h.route("docs", "/docs", policyOf(manualStyle, manualScript), func(c *gin.Context) (*cache.Content, error) {
			everywhere, err := page()
			if err != nil {
				return nil, err
			}
			return h.placed(everywhere, h.stack.BaseURL(c.Request)), nil
		}),
		h.route("docs_live", "/docs/live", policyOf(within(livePage, "style"), within(livePage, "script")), func(*gin.Context) (*cache.Content, error) { return live, nil }),
	}
	if h.o.Chain.Shape == chain.Documented { // the node has nothing there
		routes = append(routes, h.welcome())
	}
	return routes
}

// pageType is the media type of pages.
const pageType = "text/html; charset=utf-8"

//go:embed live.html
var livePage string

// within is what is in an element of a page.
func within(page, element string) string {
	_, text, _ := strings.Cut(page, "<"+element+">")
	text, _, _ = strings.Cut(text, "</"+element+">")
	return text
}

// welcome leads a browser that opens the server's address to the manual.
func (h *Handler) welcome() web.Route {
	serve := func(c *gin.Context, _ *record.Record) error {
		place := "docs" // relative: a proxy before us may serve it below a path
		if target, _, _ := strings.Cut(c.Request.RequestURI, "?"); !strings.HasSuffix(target, "/") {
			place = path.Base(h.o.Base) + "/docs"
		}
		c.Header("Location", place)
		respond.Send(c.Writer, c.Request, http.StatusFound, "text/plain; charset=utf-8", []byte("The manual is at docs.\n"))
		return nil
	}
	return h.mounted("welcome", "/", serve)
}

// mounted is a route at a path.
func (h *Handler) mounted(name, path string, serve web.Handler) web.Route {
	return web.Route{
		Name: name, Methods: []string{http.MethodGet, http.MethodHead}, Pattern: path,
		Serve: serve, Render: chain.RenderFailure,
	}
}

// once renders the description when first asked to.
func once(made func() (*description, error), typ string, render func(*description) ([]byte, error)) func() (*cache.Content, error) {
	return sync.OnceValues(func() (*cache.Content, error) {
		d, err := made()
		if err != nil {
			return nil, err
		}
		text, err := render(d)
		return cache.NewContent(http.StatusOK, typ, "", text, 0), err
	})
}

// placed is the page with the server's address.
func (h *Handler) placed(page *cache.Content, base string) *cache.Content {
	return h.cache.Derived("docs", page, base, func(page *cache.Content, base string) *cache.Content {
		text := bytes.ReplaceAll(page.Body, []byte(somewhere), []byte(html.EscapeString(base)))
		text = bytes.ReplaceAll(text, []byte(elsewhere), []byte(html.EscapeString(hostOf(base))))
		return cache.NewContent(page.Status, page.Type, "", text, 0)
	})
}

// hostOf is the host of an address, as it stands before a port.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "localhost"
	}
	return strings.TrimSuffix(u.Host, ":"+u.Port())
}

// route serves what is the same for as long as the server runs. The policy says to browsers what a
// page may do; "" for what is no page.
func (h *Handler) route(name, path, policy string, content func(*gin.Context) (*cache.Content, error)) web.Route {
	serve := func(c *gin.Context, _ *record.Record) error {
		if policy != "" {
			c.Header("Content-Security-Policy", policy)
		}
		found, err := content(c)
		if err != nil {
			return err
		}
		now := time.Now()
		h.stack.Respond(c.Writer, c.Request, &respond.Response{
			Result: cache.Result{Entry: &cache.Entry{Content: found, ReadAt: now}},
			Key:    name, Policy: cache.Policy{Immutable: true}, Now: now, Control: "public, max-age=3600",
		})
		return nil
	}
	return h.mounted(name, path, serve)
}
