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

// SendParts sends a body of size bytes. parts writes it piece by piece.
func SendParts(w http.ResponseWriter, r *http.Request, status int, typ string, size int, parts func(write func([]byte))) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", typ)
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(status)
	parts(func(part []byte) { _, _ = w.Write(part) }) // fails only if the client has disconnected
}

// SetHeight sets the height headers of a response that is not from the cache.
func SetHeight(to http.Header, height int64, more []ExtraHeader) {
	text := strconv.FormatInt(height, 10)
	to.Set(HeightHeader, text)
	for _, l := range more {
		to.Set(l.Name, cmp.Or(l.Value, text))
	}
}
