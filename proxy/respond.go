package proxy

import (
	"net/http"
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
	key     string        // the query's: of the entry that what is encoded is kept with
	policy  cache.Policy  // the query's, for the remaining lifetime
	tip     node.Tip      // zero for what is not chain data
	vary    string        // request headers the answer depends on, beside those of every answer
	control string        // Cache-Control; "" derives one from the lifetime
	private bool          // of the derived one: not for caches that others ask
	until   time.Time     // of a page that is fresh until the store changes: when it is read anew all the same; zero for others
	behind  time.Duration // of a page whose store follows a chain: how far it is behind that; 0 for others
	seconds bool          // freshness is meant in blocks, but no tip is known: Cache-Status says so
}

// respond writes an answer, or says that the client has it already.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, a answer) {
	e := a.Entry
	h := collect()
	if e.Link != "" {
		h.set("Link", e.Link)
	}
	s.setVary(h, a.vary)
	if e.Height > 0 {
		h.setInt(heightHeader, e.Height)
	}
	a.freshness(h, time.Now())
	if e.Status != http.StatusOK {
		h.write(w, r, e.Status, e.Type, e.Body)
		return
	}
	client := readAccepted(r.Header["Accept-Encoding"])
	coding := client.best(len(e.Body))
	if has, ok := held(r.Header, e.ETag, coding); ok {
		h.setTag(e.ETag, has)
		h.writeTo(w.Header())
		w.WriteHeader(http.StatusNotModified)
		return
	}
	coding, body := s.encoded(a, coding, client[cache.Identity] == 0)
	if coding != cache.Identity {
		h.set("Content-Encoding", coding.String())
	}
	h.setTag(e.ETag, coding)
	h.write(w, r, e.Status, e.Type, body)
}

// encoded gives the body in a coding; or plain while that is being made, unless
// the client must have it so.
func (s *Server) encoded(a answer, coding cache.Coding, must bool) (cache.Coding, []byte) {
	if body, ok := s.o.Cache.Encoded(a.key, a.Entry.Content, coding, must); ok {
		return coding, body
	}
	return cache.Identity, a.Entry.Body
}

// setVary names the request headers that choose between answers of one URL.
func (s *Server) setVary(h *headers, own string) {
	text := h.begin("Vary")
	if own != "" {
		text = append(append(text, own...), ", "...)
	}
	text = append(text, "Accept-Encoding"...)
	if s.cors.selective() {
		text = append(text, ", Origin"...)
	}
	h.finish(text)
}

// send writes a body that did not come through the cache and must not be kept.
func send(w http.ResponseWriter, r *http.Request, status int, typ string, body []byte) {
	h := collect()
	h.set("Cache-Control", "no-store")
	h.write(w, r, status, typ, body)
}

// write sends the headers collected, and the body to all who want one.
func (h *headers) write(w http.ResponseWriter, r *http.Request, status int, typ string, body []byte) {
	h.set("Content-Type", typ)
	h.setInt("Content-Length", int64(len(body)))
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		writeWhole(w, r, body)
	}
}
