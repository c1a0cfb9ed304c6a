// Package docs serves the OpenAPI document, and the manual: the same document as a page for people.
//
// handler.go serves both. description.go builds the document:
//
//   - parts.go reads openapi.yaml, which has what no row of a table implies: the prose, shared parameters and headers,
//     statuses, and the operations of streams and batches (streams.go);
//   - chain.go adds an operation for each row of Story's route table. The schema of its response is in package documented or in
//     story_messages.go;
//   - cosmos.go adds the operations of a Cosmos SDK chain, with the schemas of messages.go;
//   - collections.go adds the collection listing, with the schemas that its requests are validated against;
//   - responses.go has what operations share, and examples.go a real response for each operation.
//
// manual.go renders the page (manual.html, manual.css) from the document, with the texts of manual_text.go. samples.go
// has the programs of each operation, and interfaces.go those of RPC and gRPC. live.html shows streamed responses.
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

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options describe the interfaces as they are configured.
type Options struct {
	Base        string // base path; "" for the root
	Story       story.Options
	Rows        []dialect.Row        // the operator's rows of Story
	Auth        bool                 // requests for the chain need a key
	Cosmos      []dialect.Row        // rows of a Cosmos SDK chain; nil for Story
	Collections *collections.Options // nil disables the listing
	Listeners   Listeners            // addresses of the other interfaces
}

// A Handler serves the documents.
type Handler struct {
	o     Options
	stack *web.Stack
	cache *cache.Cache
}

// New returns a handler. The documents are built at the first request.
func New(o Options, stack *web.Stack, c *cache.Cache) *Handler {
	o.Story = o.Story.WithDefaults()
	return &Handler{o, stack, c}
}

// Document returns the OpenAPI document as JSON.
func Document(o Options) []byte {
	o.Story = o.Story.WithDefaults()
	return describe(o).encode()
}

func (d *description) encode() []byte {
	text, err := json.Marshal(d)
	must(err)
	return text
}

// Routes returns the routes to mount.
func (h *Handler) Routes() []web.Route {
	made := sync.OnceValue(func() *description { return describe(h.o) })
	document := sync.OnceValue(func() *cache.Content { return contentOf(respond.JSON, made().encode()) })
	page := sync.OnceValue(func() *cache.Content { return contentOf(pageType, renderManual(made())) })
	live := contentOf(pageType, []byte(livePage))
	routes := []web.Route{
		h.route("openapi", "/openapi.json", "", func(*web.Request) *cache.Content { return document() }),
		h.route("docs", "/docs", policyOf(manualStyle, manualScript), func(r *web.Request) *cache.Content { return h.placed(page(), h.stack.BaseURL(r)) }),
		h.route("docs_live", "/docs/live", policyOf(within(livePage, "style"), within(livePage, "script")), func(*web.Request) *cache.Content { return live }),
	}
	if h.o.Story.Shape == story.Documented { // the node has nothing at this path
		routes = append(routes, h.welcome())
	}
	return routes
}

// pageType is the media type of pages.
const pageType = "text/html; charset=utf-8"

//go:embed live.html
var livePage string

// within returns the text inside an element of a page.
func within(page, element string) string {
	_, text, _ := strings.Cut(page, "<"+element+">")
	text, _, _ = strings.Cut(text, "</"+element+">")
	return text
}

// welcome redirects browsers from the root to the manual.
func (h *Handler) welcome() web.Route {
	serve := func(r *web.Request) error {
		place := "docs" // relative, because a proxy in front may add a base path
		if target, _, _ := strings.Cut(r.RequestURI, "?"); !strings.HasSuffix(target, "/") {
			place = path.Base(h.o.Base) + "/docs"
		}
		r.ResponseHeader.Set("Location", place)
		r.Send(http.StatusFound, "text/plain; charset=utf-8", []byte("The manual is at docs.\n"))
		return nil
	}
	return h.mounted("welcome", "/", serve)
}

// mounted returns a route at a path.
func (h *Handler) mounted(name, path string, serve web.Handler) web.Route {
	return web.Route{
		Name: name, Methods: []string{http.MethodGet, http.MethodHead}, Pattern: path,
		Serve: serve, Render: story.RenderFailure,
	}
}

func contentOf(typ string, text []byte) *cache.Content {
	return cache.NewContent(http.StatusOK, typ, "", text, 0)
}

// placed returns the page with the server's address.
func (h *Handler) placed(page *cache.Content, base string) *cache.Content {
	return h.cache.Derived("docs", page, base, func(page *cache.Content, base string) *cache.Content {
		text := bytes.ReplaceAll(page.Body, []byte(somewhere), []byte(html.EscapeString(base)))
		text = bytes.ReplaceAll(text, []byte(elsewhere), []byte(html.EscapeString(hostOf(base))))
		return contentOf(page.Type, text)
	})
}

// hostOf returns the host of a URL without its port.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "localhost"
	}
	return strings.TrimSuffix(u.Host, ":"+u.Port())
}

// route returns a route for constant content. policy is the Content-Security-Policy of a page, "" otherwise.
func (h *Handler) route(name, path, policy string, content func(*web.Request) *cache.Content) web.Route {
	serve := func(r *web.Request) error {
		if policy != "" {
			r.ResponseHeader.Set("Content-Security-Policy", policy)
		}
		now := time.Now()
		h.stack.Responder.Respond(r.Writer, r.Request, &respond.Response{
			Result: cache.Result{Entry: &cache.Entry{Content: content(r), ReadAt: now}},
			Key:    name, Policy: cache.Policy{Immutable: true}, Now: now, Control: "public, max-age=3600",
		})
		return nil
	}
	return h.mounted(name, path, serve)
}
