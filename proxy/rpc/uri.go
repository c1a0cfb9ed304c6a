package rpc

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
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
		value = `"` + strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`) + `"`
		return json.RawMessage(value), wholeNumber.MatchString(value)
	case flag:
		return k.canonicalize(json.RawMessage(value))
	case text:
		var s string
		if json.Unmarshal([]byte(value), &s) != nil {
			return nil, false
		}
		return k.quote(s)
	case hexBytes, b64Bytes:
		digits, ok := strings.CutPrefix(value, "0x")
		b, err := hex.DecodeString(digits)
		if k == b64Bytes {
			digits = base64.StdEncoding.EncodeToString(b)
		}
		quoted, _ := k.quote(digits)
		return quoted, ok && err == nil
	default:
		return nil, false
	}
}

// target returns the request target to send if the node may parse a URI differently.
func (m *method) target(r *http.Request) string {
	known := url.Values{}
	for _, p := range m.params {
		if value := r.FormValue(p.name); value != "" {
			known.Set(p.name, value)
		}
	}
	return "/" + m.name + "?" + known.Encode()
}

// serveURI answers a method named by its path.
func (d *Handler) serveURI(c *gin.Context, rec *record.Record, name string) error {
	m := d.methods[name]
	switch {
	case m == nil && HasMethod(name, nil): // over a WebSocket
		respond.Send(c.Writer, c.Request, http.StatusNotFound, respond.JSON, jsonrpc.AppendAnswer(nil, jsonrpc.NoID, jsonrpc.MethodNotFound))
		return nil
	case m == nil:
		d.refusals.logOnce(name)
		respond.Send(c.Writer, c.Request, http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n"))
		return nil
	}
	rec.Route = d.routeOf(name)
	hs, err := blocks.HeightRules{}.Read(c.Request)
	if err != nil {
		return err
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, d.o.Posting.MaxBody)
	k := d.parseURI(m, c.Request, hs)
	if err := k.admit(c.Request, rec, c.Writer.Header()); err != nil {
		return err
	}
	if err := k.await(c, rec); err != nil {
		return err
	}
	all, errs := d.run(c.Request, rec, []*pendingCall{k})
	if errs[0] != nil {
		return errs[0]
	}
	return d.answerURI(c, rec, all[0])
}

// parseURI returns the call of a URI.
func (d *Handler) parseURI(m *method, r *http.Request, hs blocks.Heights) *pendingCall {
	k := &pendingCall{Handler: d, m: m, heights: hs}
	if m.cost == node.Unknown {
		k.target = "/" + m.name + "?" + r.URL.RawQuery
		return k
	}
	var ok bool
	if k.a, ok = m.readForm(r); m.waits {
		k.wait = r.Form[waitParameter]
	}
	if !ok {
		k.a, k.target = make(arguments, len(m.params)), m.target(r)
	}
	return k
}

// answerURI writes the answer to a URI. As at the node, every error is a 500.
func (d *Handler) answerURI(c *gin.Context, rec *record.Record, one answeredCall) error {
	release, err := d.reader.Stack.HoldResponse(c.Request, len(one.member))
	if err != nil {
		return err
	}
	defer release()
	adviseRetry(c.Writer.Header(), rec, one)
	if one.status != 0 {
		respond.Send(c.Writer, c.Request, one.status, one.typ, one.member)
		return nil
	}
	status := http.StatusOK
	if jsonrpc.IsError(one.member) {
		status = http.StatusInternalServerError
	}
	body := jsonrpc.AppendAnswer(nil, jsonrpc.NoID, one.member)
	if one.answer == nil {
		respond.Send(c.Writer, c.Request, status, respond.JSON, body)
		return nil
	}
	res := d.reader.Response(rec, one.query, one.answer)
	if status != http.StatusOK || res.PastExpires() {
		res.Control = noStore
	}
	d.reader.Stack.SendBody(c.Writer, c.Request, &res, status, one.tag, body)
	return nil
}
