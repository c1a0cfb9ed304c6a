package proxy

import (
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// Response headers of our own.
const (
	heightHeader    = "X-Block-Height"
	minHeightHeader = "X-Min-Block-Height"
	requestIDHeader = "X-Request-Id"
)

// An answer is content that came through the cache, with what the headers say
// about it.
type answer struct {
	cache.Result
	policy  cache.Policy // the query's, for the remaining lifetime
	tip     node.Tip     // zero for what is not chain data
	vary    string       // request headers the answer depends on
	control string       // Cache-Control; "" derives a public one from the lifetime
	seconds bool         // freshness is meant in blocks, but no tip is known: Cache-Status says so
}

// respond writes an answer, or says that the client has it already.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, a answer) {
	e, now := a.Entry, time.Now()
	ok := e.Status == http.StatusOK
	unchanged := ok && matches(r.Header.Get("If-None-Match"), e.ETag)
	var h headers
	if ok {
		h.set("Etag", e.ETag)
	}
	if e.Link != "" {
		h.set("Link", e.Link)
	}
	if a.vary != "" {
		h.set("Vary", a.vary)
	}
	if e.Height > 0 {
		h.setInt(heightHeader, e.Height)
	}
	a.freshness(&h, now)
	if unchanged {
		h.writeTo(w.Header())
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.set("Content-Type", e.Type)
	h.setInt("Content-Length", int64(len(e.Body)))
	h.writeTo(w.Header())
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(e.Body) // fails only when the client has left
	}
}

// send writes a body that did not come through the cache and must not be kept.
func send(w http.ResponseWriter, r *http.Request, status int, typ string, body []byte) {
	var h headers
	h.set("Content-Type", typ)
	h.set("Cache-Control", "no-store")
	h.setInt("Content-Length", int64(len(body)))
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// matches compares If-None-Match with our validator, weakly, as RFC 9110
// says: a compressing proxy on the way may have weakened it.
func matches(header, etag string) bool {
	if header == "" || etag == "" {
		return false
	}
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}
