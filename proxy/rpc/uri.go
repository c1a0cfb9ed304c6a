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

// parse converts a value of a URI to canonical JSON.
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

// serveURI answers a method named by its path.
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
	return k.answerURI(c, rec)
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

// answerURI writes the answer to a URI. As at the node, every error is a 500.
func (k *pendingCall) answerURI(c *gin.Context, rec *record.Record) error {
	release, err := k.reader.Stack.HoldResponse(c.Request, len(k.member))
	if err != nil {
		return err
	}
	defer release()
	if k.status != 0 {
		respond.Send(c.Writer, c.Request, k.status, k.typ, k.member)
		return nil
	}
	status := http.StatusOK
	if jsonrpc.IsError(k.member) {
		status = http.StatusInternalServerError
	}
	body := jsonrpc.AppendAnswer(nil, jsonrpc.NoID, k.member)
	if k.answer == nil {
		respond.Send(c.Writer, c.Request, status, respond.JSON, body)
		return nil
	}
	res := k.reader.Response(rec, k.query, k.answer)
	k.reader.KeepSession(c.Writer, c.Request, k.answer.Tip, &res)
	if status != http.StatusOK || res.PastExpires() {
		res.Control = noStore
	}
	res.Body, res.Status, res.Tag = body, status, k.tag
	k.reader.Stack.Respond(c.Writer, c.Request, &res)
	return nil
}
