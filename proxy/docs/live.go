package docs

import (
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
)

//go:embed live.html
var livePage string

// live serves a page that shows answers as they are streamed.
func live() func(*gin.Context) (*cache.Content, error) {
	page := cache.NewContent(http.StatusOK, "text/html; charset=utf-8", "", []byte(livePage), 0)
	policy := "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"style-src " + digestOf(livePage, "style") + "; script-src " + digestOf(livePage, "script")
	return func(c *gin.Context) (*cache.Content, error) {
		c.Header("Content-Security-Policy", policy)
		return page, nil
	}
}

// digestOf names the content of the page's one element of a kind, as a policy
// lets it pass.
func digestOf(page, element string) string {
	_, text, _ := strings.Cut(page, "<"+element+">")
	text, _, _ = strings.Cut(text, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
