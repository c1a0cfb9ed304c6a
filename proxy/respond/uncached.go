package respond

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/tipcache/tipcache/proxy/conn"
)

// Send writes a body that is not from the cache, with no-store unless Cache-Control is set already.
func Send(w http.ResponseWriter, r *http.Request, status int, typ string, body []byte) {
	h := collect()
	if w.Header()["Cache-Control"] == nil {
		h.set("Cache-Control", "no-store")
	}
	h.setBody(typ, body)
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		conn.WriteBody(w, r, body)
	}
}

// SendHead sends the headers of a body of size bytes, which the caller writes and no cache may store.
func SendHead(w http.ResponseWriter, status int, typ string, size int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", typ)
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(status)
}

// SetHeight sets the height headers of a response that is not from the cache.
func SetHeight(to http.Header, height int64, more []ExtraHeader) {
	text := strconv.FormatInt(height, 10)
	to.Set(HeightHeader, text)
	for _, l := range more {
		to.Set(l.Name, cmp.Or(l.Value, text))
	}
}
