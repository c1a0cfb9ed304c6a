package proxy

import (
	"bytes"
	"encoding/json"
	"html"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
)

// mountDescription mounts the OpenAPI document for programs, and the manual
// made of it for people. They are made when first asked for.
func (s *Server) mountDescription(r *gin.Engine) {
	made := sync.OnceValues(func() (*description, error) { return describe(s.o) })
	document := sync.OnceValues(func() (*cache.Content, error) {
		d, err := made()
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(d)
		return cache.NewContent(http.StatusOK, jsonType, "", text, 0), err
	})
	page := sync.OnceValues(func() (*cache.Content, error) {
		d, err := made()
		if err != nil {
			return nil, err
		}
		text, err := renderManual(d)
		return cache.NewContent(http.StatusOK, "text/html; charset=utf-8", "", text, 0), err
	})
	s.mountDocument(r, "openapi", "/openapi.json", func(*gin.Context) (*cache.Content, error) { return document() })
	s.mountDocument(r, "docs", "/docs", func(c *gin.Context) (*cache.Content, error) {
		c.Header("Content-Security-Policy", manualPolicy())
		everywhere, err := page()
		if err != nil {
			return nil, err
		}
		return s.placed(everywhere, s.baseURL(c.Request)), nil
	})
}

// placed is the page with the server's address.
func (s *Server) placed(page *cache.Content, base string) *cache.Content {
	return s.o.Cache.Derived("docs", page, base, func(page *cache.Content) *cache.Content {
		text := bytes.ReplaceAll(page.Body, []byte(somewhere), []byte(html.EscapeString(base)))
		return cache.NewContent(page.Status, page.Type, "", text, 0)
	})
}

// mountDocument serves what is the same for as long as the server runs.
func (s *Server) mountDocument(r *gin.Engine, name, path string, content func(*gin.Context) (*cache.Content, error)) {
	h := s.observed(name, s.writeFailure, func(c *gin.Context, _ *record) error {
		found, err := content(c)
		if err != nil {
			return err
		}
		s.respond(c.Writer, c.Request, answer{
			Result: cache.Result{Entry: &cache.Entry{Content: found, ReadAt: time.Now()}},
			key:    name, policy: cache.Policy{Immutable: true}, control: "public, max-age=3600",
		})
		return nil
	})
	r.GET(path, h)
	r.HEAD(path, h)
}
