package docs

import (
	_ "embed" // the page
	"net/http"
	"strings"

	"github.com/tipcache/tipcache/cache"
)

//go:embed live.html
var livePage string

// live is a page that shows answers as they are streamed, and the policy that lets it.
func live() (page *cache.Content, policy string) {
	_, style, _ := strings.Cut(livePage, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	_, script, _ := strings.Cut(livePage, "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	return cache.NewContent(http.StatusOK, "text/html; charset=utf-8", "", []byte(livePage), 0),
		"default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
			"style-src " + hashOf(style) + "; script-src " + hashOf(script)
}
