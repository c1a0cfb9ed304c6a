package rpc

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// readForm parses the parameters of a URI. It returns false if the node might parse them differently or refuse them.
func (m *method) readForm(given url.Values) (a arguments, ok bool) {
	a = make(arguments, len(m.params))
	for i, p := range m.params {
		if value := given.Get(p.name); value != "" {
			if a[i], ok = p.kind.json(value); !ok {
				return nil, false
			}
		}
	}
	return a, m.canonicalize(a)
}

// json returns the value of a URI as a call by POST would have it. Nodes accept 0x and hex digits for bytes and texts, a quoted text
// also for bytes, bare digits for integers, and otherwise JSON.
func (k kind) json(value string) (json.RawMessage, bool) {
	isBytes := k == hexBytes || k == b64Bytes
	digits, isHex := strings.CutPrefix(value, "0x")
	if !isHex {
		digits, isHex = strings.CutPrefix(value, "0X")
	}
	b, err := hex.DecodeString(digits)
	switch {
	case isHex && k == text && err == nil && utf8.Valid(b):
		quoted, err := json.Marshal(string(b))
		return quoted, err == nil
	case isHex:
		return k.encode(b), isBytes && err == nil
	case isBytes && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`):
		var s string
		err := json.Unmarshal([]byte(value), &s)
		return k.encode([]byte(s)), err == nil
	case k == integer && bareInteger.MatchString(value):
		return json.RawMessage(`"` + value + `"`), true
	default:
		return json.RawMessage(value), k != raw && !isBytes && json.Valid([]byte(value)) // "a","height":"5" would add a parameter to the call
	}
}

var bareInteger = regexp.MustCompile(`^-?[0-9]+$`)

// formOf returns the parameters of a URI. As for nodes, those of the query come before those of a form in the body.
func formOf(r *web.Request) url.Values {
	_ = r.FormValue("") // parses the body
	given := r.URL.Query()
	for name, values := range r.PostForm {
		if given.Get(name) == "" {
			given[name] = values
		}
	}
	return given
}

func (d *Handler) serveURI(r *web.Request, name string) error {
	m := d.methods[name]
	switch {
	case m == nil && HasMethod(name, nil): // over a WebSocket
		r.Send(http.StatusNotFound, respond.JSON, jsonrpc.AppendAnswer(nil, jsonrpc.NoID, jsonrpc.MethodNotFound))
		return nil
	case m == nil:
		d.logRefusal(name)
		r.Send(http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n"))
		return nil
	}
	r.Record.Route = d.routeOf(name)
	hs, err := web.HeightRules{}.Read(r)
	if err != nil {
		return err
	}
	k := d.parseURI(m, r, hs)
	if err := k.answerOnly(r); err != nil {
		return err
	}
	status := http.StatusOK
	if jsonrpc.IsError(k.member) { // as at the node
		status = http.StatusInternalServerError
	}
	return k.send(r, jsonrpc.NoID, status, k.tag)
}

func (d *Handler) parseURI(m *method, r *web.Request, hs web.Heights) *pendingCall {
	k := &pendingCall{call: &call{d: d, m: m, heights: hs}}
	if m.cost == node.Unknown {
		k.call.target = "/" + m.name + "?" + strings.ReplaceAll(r.URL.RawQuery, " ", "%20") // HTTP/2 permits spaces
		return k
	}
	given := formOf(r)
	if m.waits {
		k.wait = given[waitParameter]
	}
	var ok bool
	if k.call.a, ok = m.readForm(given); !ok {
		k.call.a, k.call.target = make(arguments, len(m.params)), "/"+m.name+"?"+given.Encode()
	}
	return k
}
