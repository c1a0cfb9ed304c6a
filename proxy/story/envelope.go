package story

import (
	"encoding/json"
	"net/http"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// RenderFailure renders a failure in the form of the chain API.
func RenderFailure(_ *web.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte) {
	f.SetAdvice(h)
	msg := &struct{}{}
	if f.NullMsg {
		msg = nil
	}
	return f.Status, respond.JSON, errorEnvelope(f.Status, f.Public, msg)
}

// MissRenderer returns the renderer for unknown paths. In the node's shape it sends the node's page for 404.
func MissRenderer(s Shape) web.Renderer {
	if s != Node {
		return RenderFailure
	}
	return func(r *web.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte) {
		if f.Status != http.StatusNotFound {
			return RenderFailure(r, h, f)
		}
		return f.Status, "text/plain; charset=utf-8", []byte("404 page not found\n")
	}
}

// ErrorEnvelope returns the body of an error response: code is the HTTP status, msg is empty, and error is the text.
func ErrorEnvelope(status int, text string) []byte { return errorEnvelope(status, text, &struct{}{}) }

func errorEnvelope(status int, text string, msg *struct{}) []byte {
	b, _ := json.Marshal(struct { // cannot fail
		Code  int       `json:"code"`
		Msg   *struct{} `json:"msg"`
		Error string    `json:"error"`
	}{status, msg, text})
	return append(b, '\n')
}
