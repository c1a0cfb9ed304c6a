package rpc

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/upstream/node"
)

// answerCalls answers a batch in which several calls have an id.
func (d *Handler) answerCalls(c *gin.Context, rec *record.Record, calls []jsonrpc.Call, hs blocks.Heights) error {
	done, err := d.reader.Stack.HoldStream(int64(len(calls)-1) * callCost)
	if err != nil {
		return err
	}
	defer done()
	pending := make([]*pendingCall, len(calls))
	for i, one := range calls {
		if pending[i] = refuseWait(d.parse(one, hs)); pending[i] == nil {
			return refuse(c, rec, jsonrpc.NoID, missingParams)
		}
		if err := pending[i].admit(c.Request, rec, c.Writer.Header()); err != nil {
			pending[i] = &pendingCall{member: memberOf(failure.Of(err))}
		}
	}
	d.chargeCalls(c.Request, rec, pending)
	held := d.reader.Stack.OpenResponse(c.Request)
	defer held.Release()
	d.run(c.Request, rec, pending, held)
	if err := held.Err(); err != nil { // the answers do not fit into the memory
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
	d.describe(c, rec, pending)
	recordFailures(c.Writer.Header(), rec, pending...)
	sendAnswers(c, size, calls, pending)
	return nil
}

// sendAnswers sends the answers of the calls as a JSON list of size bytes. It writes them in parts, and copies no long member.
func sendAnswers(c *gin.Context, size int, calls []jsonrpc.Call, pending []*pendingCall) {
	respond.SendParts(c.Writer, c.Request, http.StatusOK, respond.JSON, size, func(write func([]byte)) {
		b, next := make([]byte, 0, partSize+1<<10), byte('[')
		flush := func() {
			write(b)
			b = b[:0]
		}
		for i, k := range pending {
			b, next = jsonrpc.Begin(append(b, next), calls[i].ID), ','
			if len(k.member) > partSize {
				flush()
				write(k.member)
			} else {
				b = append(b, k.member...)
			}
			if b = append(b, '}'); len(b) > partSize {
				flush()
			}
		}
		write(append(b, ']'))
	})
}

const partSize = 16 << 10 // bytes of a batch's response to write at once

// chargeCalls charges the client for each call after the first, which the request itself was charged for.
func (d *Handler) chargeCalls(from *http.Request, rec *record.Record, pending []*pendingCall) {
	limiter, err := d.reader.Stack.Limiter(from, rec)
	if err != nil {
		return
	}
	for i := 1; i < len(pending); i++ {
		if pending[i].call != nil && limiter.Spend(context.WithoutCancel(from.Context())) > 0 {
			pending[i] = &pendingCall{member: jsonrpc.Error(jsonrpc.ServerError, "too many requests; try again later")}
		}
	}
}

// describe sets the headers about the cache entries of a batch. The height is the lowest of all calls.
func (d *Handler) describe(c *gin.Context, rec *record.Record, pending []*pendingCall) {
	var response *respond.Response
	var tip node.Tip
	for _, k := range pending {
		if k.answer == nil {
			continue
		}
		r := d.reader.Response(rec, k.query, k.answer)
		if response == nil || response.NoHeight || !r.NoHeight && r.Entry.Height < response.Entry.Height {
			response, tip = &r, k.answer.Tip
		}
	}
	if response != nil {
		d.reader.KeepSession(c.Writer, c.Request, tip, response)
		response.Control = noStore
		d.reader.Stack.SetHeaders(c.Writer.Header(), response)
	}
}

// missingParams is the node's error for a call without parameters of a method that needs some.
var missingParams = jsonrpc.Error(jsonrpc.InternalError, "reflect: Call with too few input arguments")
