package rpc

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/upstream/node"
)

// readForm parses the parameters of a URI, the first value of each name, as the node does. It returns false if the
// node might parse them differently or refuse them.
func (m *method) readForm(r *http.Request) (a arguments, ok bool) {
	a = make(arguments, len(m.params))
	for i, p := range m.params {
		value := r.FormValue(p.name)
		if value == "" {
			continue
		}
		if a[i], ok = p.kind.parse(value); !ok {
			return nil, false
		}
	}
	return a, true
}

func (k kind) parse(value string) (json.RawMessage, bool) {
	switch k {
	case integer:
		return k.canonicalize(json.RawMessage(`"` + strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`) + `"`))
	case hexBytes, b64Bytes:
		digits, ok := strings.CutPrefix(value, "0x")
		b, err := hex.DecodeString(digits)
		return k.encode(b), ok && err == nil
	case raw:
		return nil, false
	}
	if !json.Valid([]byte(value)) { // canonicalize does not validate: "a","height":"5" would add a parameter to the call
		return nil, false
	}
	return k.canonicalize(json.RawMessage(value))
}

func (d *Handler) serveURI(c *gin.Context, rec *record.Record, name string) error {
	m := d.methods[name]
	switch {
	case m == nil && HasMethod(name, nil): // over a WebSocket
		respond.Send(c.Writer, c.Request, http.StatusNotFound, respond.JSON, jsonrpc.AppendAnswer(nil, jsonrpc.NoID, jsonrpc.MethodNotFound))
		return nil
	case m == nil:
		d.logRefusal(name)
		respond.Send(c.Writer, c.Request, http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n"))
		return nil
	}
	rec.Route = d.routeOf(name)
	hs, err := blocks.HeightRules{}.Read(c.Request)
	if err != nil {
		return err
	}
	k := d.parseURI(m, c.Request, hs)
	if err := k.answerOnly(c, rec); err != nil {
		return err
	}
	status := http.StatusOK
	if jsonrpc.IsError(k.member) { // as at the node
		status = http.StatusInternalServerError
	}
	return k.send(c, rec, jsonrpc.NoID, status, k.tag)
}

func (d *Handler) parseURI(m *method, r *http.Request, hs blocks.Heights) *pendingCall {
	k := &pendingCall{call: &call{Handler: d, m: m, heights: hs}}
	if m.cost == node.Unknown {
		k.target = "/" + m.name + "?" + strings.ReplaceAll(r.URL.RawQuery, " ", "%20") // HTTP/2 permits spaces
		return k
	}
	var ok bool
	if k.a, ok = m.readForm(r); m.waits {
		k.wait = r.Form[waitParameter]
	}
	if !ok {
		k.a, k.target = make(arguments, len(m.params)), "/"+m.name+"?"+r.Form.Encode()
	}
	return k
}
