package grpc

import (
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
)

// Plan says what a call of the method in a path would ask, with a message in hex.
func (d *Handler) Plan(r *http.Request, message string) (p web.Plan, err error) {
	text, err := hex.DecodeString(message)
	if err != nil {
		return p, web.BadInput("the body is %q; expected the message in hex", web.Short(message))
	}
	name := r.URL.Path
	m := d.methodOf(name)
	if m.route != value.route && m.route != found.route {
		return p, nil
	}
	k := &call{Handler: d, name: name, from: r}
	hs, ok := k.heights()
	if !ok {
		return p, web.BadInput("%s", k.st.Message())
	}
	q := k.values.Query(state.Request{Method: name, Message: text}, hs)
	p, _, err = d.reader.Forecast(r, q, web.Plan{Route: m.route, Origin: "the node", Asks: fmt.Sprintf("the node for %s %x", name, text)})
	return p, err
}

// Render renders failures for readers of explain, as no client of gRPC gets them.
func Render(_ *http.Request, _ http.Header, f *web.Failure) (status int, typ string, body []byte) {
	return f.Status, "text/plain; charset=utf-8", []byte(f.Public + "\n")
}
