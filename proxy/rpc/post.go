package rpc

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
)

// servePost answers a body: a call, or a batch.
func (d *Handler) servePost(c *gin.Context, rec *record.Record, body []byte) error {
	var run []jsonrpc.Call
	var room [256]byte
	calls, size := 0, 0 // of the answers, should there be too many calls
	batch, err := jsonrpc.Each(body, func(one jsonrpc.Call) {
		calls++
		if one.ID == nil {
			return // a notification, which is not run
		}
		if size += len(jsonrpc.AppendAnswer(room[:0], one.ID, tooMany)) + 1; len(run) < MaxBatch {
			run = append(run, one)
		}
	})
	switch {
	case err != nil:
		return refuse(c, rec, nil, jsonrpc.Error(jsonrpc.ParseError, "error unmarshaling request: "+err.Error()))
	case len(run) == 0:
		c.Writer.Header().Set("Content-Length", "0")
		c.Writer.WriteHeader(http.StatusOK)
		return nil
	case calls > MaxBatch:
		return tooLong(c, body, size+1)
	}
	hs, err := blocks.HeightRules{}.Read(c.Request)
	if err != nil {
		return err
	}
	rec.Route = "rpc batch"
	if !batch || len(run) == 1 {
		rec.Route = d.routeOf(run[0].Method)
	}
	if len(run) > 1 {
		return d.answerCalls(c, rec, run, hs)
	}
	return d.answerCall(c, rec, body, run[0], hs)
}

// refuse answers a body as the node does: with a 500, which is the client's doing.
func refuse(c *gin.Context, rec *record.Record, id json.RawMessage, member []byte) error {
	rec.Blameless = true
	respond.Send(c.Writer, c.Request, http.StatusInternalServerError, respond.JSON, jsonrpc.AppendAnswer(nil, id, member))
	return nil
}

// routeOf is the name of a method in metrics.
func (d *Handler) routeOf(method string) string {
	if d.methods[method] == nil {
		return web.NoRoute
	}
	return "rpc " + method
}

// answerCall answers the only call of a body that has an id, by an object, also where it came as a batch.
func (d *Handler) answerCall(c *gin.Context, rec *record.Record, body []byte, call jsonrpc.Call, hs blocks.Heights) error {
	k, member := d.ask(call, hs)
	switch {
	case k == nil && member == nil:
		return refuse(c, rec, jsonrpc.NoID, tooFew)
	case k == nil:
		respond.Send(c.Writer, c.Request, http.StatusOK, respond.JSON, jsonrpc.AppendAnswer(nil, call.ID, member))
		return nil
	}
	if err := k.admit(c.Request, rec, c.Writer.Header()); err != nil {
		f := failure.Of(err)
		if f.Status != http.StatusForbidden {
			return failCall(call.ID, err)
		}
		respond.Send(c.Writer, c.Request, http.StatusOK, respond.JSON, jsonrpc.AppendAnswer(nil, call.ID, memberOf(f))) // as for an unknown method
		return nil
	}
	all, errs := d.run(c.Request, rec, []*asking{k})
	if errs[0] != nil {
		return failCall(call.ID, errs[0])
	}
	one := &all[0]
	advise(c.Writer.Header(), rec, *one)
	k.repeat(rec, body, one)
	size := len(one.member) + len(call.ID) + 32
	release, err := d.reader.Stack.HoldResponse(c.Request, size)
	if err != nil {
		return failCall(call.ID, err)
	}
	defer release()
	answer := jsonrpc.AppendAnswer(make([]byte, 0, size), call.ID, one.member)
	if one.answer == nil {
		respond.Send(c.Writer, c.Request, http.StatusOK, respond.JSON, answer)
		return nil
	}
	told := d.reader.Response(rec, one.query, one.answer)
	told.Body, told.Control = answer, notKept
	d.reader.Stack.Respond(c.Writer, c.Request, &told)
	return nil
}

// failCall returns the failure of the call with an id.
func failCall(id json.RawMessage, err error) error {
	f := *failure.Of(err)
	f.Err = &callError{id, err}
	return &f
}

// notKept is the Cache-Control of answers to a POST.
const notKept = "no-store"
