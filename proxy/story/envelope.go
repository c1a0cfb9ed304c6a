package story

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// RenderFailure renders a failure in the form of the chain API.
func RenderFailure(_ *http.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte) {
	f.SetAdvice(h)
	return f.Status, respond.JSON, errorEnvelope(f.Status, f.Public, f.NullMsg)
}

// MissRenderer returns the renderer for unknown paths. In the node's shape it sends the node's page for 404.
func MissRenderer(s Shape) web.Renderer {
	if s != Node {
		return RenderFailure
	}
	return func(r *http.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte) {
		if f.Status != http.StatusNotFound {
			return RenderFailure(r, h, f)
		}
		return f.Status, "text/plain; charset=utf-8", []byte("404 page not found\n")
	}
}

// ErrorEnvelope returns the body of an error response: code is the HTTP status, msg is empty, and error is the text.
func ErrorEnvelope(status int, text string) []byte { return errorEnvelope(status, text, false) }

func errorEnvelope(status int, text string, nullMsg bool) []byte {
	msg := "{}"
	if nullMsg {
		msg = "null"
	}
	quoted, _ := json.Marshal(text) // a string always encodes
	b := make([]byte, 0, len(quoted)+40)
	b = strconv.AppendInt(append(b, `{"code":`...), int64(status), 10)
	b = append(append(b, `,"msg":`...), msg...)
	b = append(append(b, `,"error":`...), quoted...)
	return append(b, "}\n"...)
}
