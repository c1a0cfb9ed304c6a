package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

// pages is the status page: HTML, style and scripts as they are written, with no
// step that builds them.
//
//go:embed page
var pages embed.FS

// pagePolicy lets the page have its own files and its stream, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const pageIndex = "/status/index.html"

// mountPage serves the files under /status, and the page at /.
func mountPage(mux *http.ServeMux) {
	files, err := pages.ReadDir("page")
	if err != nil {
		panic(err) // it is part of the program
	}
	for _, f := range files {
		at := "/status/" + f.Name()
		serve := fileHandler(f.Name())
		mux.HandleFunc("GET "+at, serve)
		if at == pageIndex {
			mux.HandleFunc("GET /{$}", serve)
		}
	}
}

func fileHandler(name string) http.HandlerFunc {
	text, err := pages.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // a newer program has a newer page
		h.Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	}
}

// isPage tells the page's own files, which hold no figures.
func isPage(r *http.Request) bool {
	if r.URL.Path == "/" {
		return true
	}
	dir, name := path.Split(r.URL.Path)
	if dir != "/status/" || name == "" {
		return false
	}
	_, err := pages.Open("page/" + name)
	return err == nil
}
