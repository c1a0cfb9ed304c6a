package web

import (
	"cmp"
	"net/http"
	"strconv"
)

// Send writes a body that did not come through the cache and must not be kept, unless the
// headers say for how long it may.
func Send(w http.ResponseWriter, r *http.Request, status int, typ string, body []byte) {
	h := collect()
	if w.Header()["Cache-Control"] == nil {
		h.set("Cache-Control", "no-store")
	}
	h.setBody(typ, body)
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		writeWhole(w, r, body)
	}
}

// SetHeight tells a height on an answer that did not come through the cache.
func SetHeight(to http.Header, height int64, more []Line) {
	text := strconv.FormatInt(height, 10)
	to.Set(HeightHeader, text)
	for _, l := range more {
		to.Set(l.Name, cmp.Or(l.Value, text))
	}
}
