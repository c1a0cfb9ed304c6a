package rpc

import (
	"bufio"
	"context"
	"net/http"
	"slices"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// answerCalls answers a batch in which several calls have an id.
func (d *Handler) answerCalls(r *web.Request, calls []jsonrpc.Call, hs web.Heights) error {
	done, err := d.reader.Stack.HoldStream(int64(len(calls)-1) * callCost)
	if err != nil {
		return err
	}
	defer done()
	pending := make([]*pendingCall, len(calls))
	for i, one := range calls {
		if pending[i] = refuseWait(d.parse(one, hs)); pending[i] == nil {
			return refuse(r, jsonrpc.NoID, missingParams)
		}
		if err := pending[i].admit(r); err != nil {
			pending[i] = &pendingCall{member: memberOf(failure.Of(err))}
		}
	}
	d.chargeCalls(r, pending)
	held := d.reader.Stack.OpenResponse(r.Request)
	defer held.Release()
	d.run(r, pending, held)
	broadcasts := func(k *pendingCall) bool { return k.call != nil && k.call.m.broadcasts() }
	if err := held.Err(); err != nil && !slices.ContainsFunc(pending, broadcasts) { // the answers do not fit into the memory
		return err
	}
	size := 1
	for i, k := range pending {
		if k.err != nil {
			f := failure.Of(k.err)
			if k.member = memberOf(f); !f.Expected {
				k.failure = k.err
			}
		}
		size += jsonrpc.AnswerSize(calls[i].ID, k.member) + 1
	}
	d.describe(r, pending)
	recordFailures(r, pending...)
	sendAnswers(r, size, calls, pending)
	return nil
}

// sendAnswers sends the answers of the calls as a JSON list of size bytes. Long members are not copied.
func sendAnswers(r *web.Request, size int, calls []jsonrpc.Call, pending []*pendingCall) {
	respond.SendHead(r.Writer, http.StatusOK, respond.JSON, size)
	w, next := bufio.NewWriterSize(r.Writer, partSize), byte('[')
	for i, k := range pending {
		_, _ = w.Write(jsonrpc.Begin(append(w.AvailableBuffer(), next), calls[i].ID)) // writes fail only if the client has disconnected
		_, _ = w.Write(k.member)
		_ = w.WriteByte('}')
		next = ','
	}
	_ = w.WriteByte(']')
	_ = w.Flush()
}

const partSize = 16 << 10 // bytes of a batch's response to write at once

// chargeCalls charges the client for each call after the first, which the request itself was charged for.
func (d *Handler) chargeCalls(r *web.Request, pending []*pendingCall) {
	limiter, err := d.reader.Stack.Limiter(r)
	if err != nil {
		return
	}
	for i := 1; i < len(pending); i++ {
		if pending[i].call != nil && limiter.Spend(context.WithoutCancel(r.Context())) > 0 {
			pending[i] = &pendingCall{member: jsonrpc.Error(jsonrpc.ServerError, "too many requests; try again later")}
		}
	}
}

// describe sets the headers about the cache entries of a batch. The height is the lowest of all calls.
func (d *Handler) describe(r *web.Request, pending []*pendingCall) {
	var response *respond.Response
	var tip node.Tip
	for _, k := range pending {
		if k.answer == nil {
			continue
		}
		one := d.reader.Response(r, k.query, k.answer)
		if response == nil || response.NoHeight || !one.NoHeight && one.Entry.Height < response.Entry.Height {
			response, tip = &one, k.answer.Tip
		}
	}
	if response != nil {
		d.reader.KeepSession(r, tip, response)
		response.Control = noStore
		d.reader.Stack.Responder.SetHeaders(r.ResponseHeader, response)
	}
}

// missingParams is the node's error for a call without parameters of a method that needs some.
var missingParams = jsonrpc.Error(jsonrpc.InternalError, "reflect: Call with too few input arguments")
