package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
)

func (d *Handler) servePost(r *web.Request, body []byte) error {
	var run []jsonrpc.Call
	calls := 0
	err := jsonrpc.Each(body, func(one jsonrpc.Call) (more bool) {
		if calls++; one.ID != nil { // no notification, which has no answer
			run = append(run, one)
		}
		return calls <= MaxBatch
	})
	switch {
	case err != nil:
		return refuse(r, nil, jsonrpc.Error(jsonrpc.ParseError, "error unmarshaling request: "+err.Error()))
	case calls > MaxBatch:
		return refuse(r, nil, jsonrpc.Error(jsonrpc.InvalidRequest, fmt.Sprintf("the batch has more than %d calls", MaxBatch)))
	case len(run) == 0:
		r.ResponseHeader.Set("Content-Length", "0")
		r.Writer.WriteHeader(http.StatusOK)
		return nil
	}
	hs, err := web.HeightRules{}.Read(r)
	if err != nil {
		return failureOf(run[0], err)
	}
	if len(run) > 1 {
		r.Record.Route = "rpc batch"
		return d.answerCalls(r, run, hs)
	}
	r.Record.Route = d.routeOf(run[0].Method)
	return d.answerCall(r, body, run[0], hs)
}

// refuse answers an invalid body as the node does: with a 500, which counts as the client's error.
func refuse(r *web.Request, id json.RawMessage, member []byte) error {
	r.Record.Blameless = true
	r.Send(http.StatusInternalServerError, respond.JSON, jsonrpc.AppendAnswer(nil, id, member))
	return nil
}

func (d *Handler) routeOf(method string) string {
	if d.methods[method] == nil {
		return web.NoRoute
	}
	return "rpc " + method
}

// answerCall answers a request in which only one call has an id. The answer is an object even if the request is a batch.
func (d *Handler) answerCall(r *web.Request, body []byte, call jsonrpc.Call, hs web.Heights) error {
	k := d.parse(call, hs)
	switch {
	case k == nil:
		return refuse(r, jsonrpc.NoID, missingParams)
	case k.call == nil:
		r.Send(http.StatusOK, respond.JSON, jsonrpc.AppendAnswer(nil, call.ID, k.member))
		return nil
	}
	err := k.answerOnly(r)
	if err == nil {
		status, id := headOf(k.member, call.ID)
		if status == http.StatusOK {
			k.remember(&r.Record, body)
		}
		err = k.send(r, id, status, "")
	}
	if err == nil {
		return nil
	}
	f := failureOf(call, err)
	if f.Status == http.StatusForbidden { // as for an unknown method
		r.Send(http.StatusOK, respond.JSON, jsonrpc.AppendAnswer(nil, call.ID, memberOf(f)))
		return nil
	}
	return f
}

// unreadErrors are the beginnings of a node's errors for a call whose handler has panicked, or whose body it has not read, with the
// status and id that the node sends.
var unreadErrors = []struct {
	member []byte
	status int
	id     json.RawMessage
}{
	{beginning(jsonrpc.InternalError, "runtime error: "), http.StatusInternalServerError, jsonrpc.NoID},
	{beginning(jsonrpc.InternalError, "reflect: Call "), http.StatusInternalServerError, jsonrpc.NoID},
	{beginning(jsonrpc.InvalidRequest, "error reading request body: http: request body too large"), http.StatusBadRequest, nil},
}

// beginning returns an error member without its end.
func beginning(code jsonrpc.Code, data string) []byte {
	return bytes.TrimSuffix(jsonrpc.Error(code, data), []byte(`"}`))
}

// headOf returns the status and the id of a node's response to a single call by POST.
func headOf(member []byte, id json.RawMessage) (int, json.RawMessage) {
	for _, e := range unreadErrors {
		if bytes.HasPrefix(member, e.member) {
			return e.status, e.id
		}
	}
	return http.StatusOK, id
}

// answerOnly answers the only call of a request, if the client may make it.
func (k *pendingCall) answerOnly(r *web.Request) error {
	if err := k.admit(r); err != nil {
		return err
	}
	if err := k.await(r); err != nil {
		return err
	}
	k.call.d.run(r, []*pendingCall{k}, nil)
	recordFailures(r, k)
	return k.err
}

// send sends the answer of the only call of a request. Caches may store it if it has a tag.
func (k *pendingCall) send(r *web.Request, id json.RawMessage, status int, tag string) error {
	size := jsonrpc.AnswerSize(id, k.member)
	release, err := k.call.d.reader.Stack.HoldResponse(r.Request, size)
	if err != nil {
		if err = k.dropAnswer(err); err == nil {
			recordFailures(r, k)
			r.Send(status, respond.JSON, jsonrpc.AppendAnswer(nil, id, k.member))
		}
		return err
	}
	defer release()
	if k.status != 0 { // of a URI that only the node can read
		r.Send(k.status, k.typ, k.member)
		return nil
	}
	answer := jsonrpc.AppendAnswer(make([]byte, 0, size), id, k.member)
	if k.answer == nil {
		r.Send(status, respond.JSON, answer)
		return nil
	}
	res := k.call.d.reader.Response(r, k.query, k.answer)
	k.call.d.reader.KeepSession(r, k.answer.Tip, &res)
	if res.Body, res.Status, res.Tag = answer, status, tag; tag == "" || status != http.StatusOK || res.PastExpires() {
		res.Control = noStore
	}
	k.call.d.reader.Stack.Responder.Respond(r.Writer, r.Request, &res)
	return nil
}

const noStore = "no-store"
