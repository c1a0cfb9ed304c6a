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
	if err := held.Take(0); err != nil { // the answers do not fit into the memory
		return err
	}
	size := 1
	for i, k := range pending {
		if k.err != nil {
			f := failure.Of(k.err)
			if k.member = memberOf(f); !f.Expected {
				f.SetAdvice(c.Writer.Header())
				rec.Err = k.err
			}
		}
		size += 1 + len(jsonrpc.Begin(nil, calls[i].ID)) + len(k.member) + 1
	}
	d.describe(c, rec, pending)
	adviseRetry(c.Writer.Header(), rec, pending...)
	respond.SendParts(c.Writer, c.Request, http.StatusOK, respond.JSON, size, func(write func([]byte)) {
		b, next := make([]byte, 0, partSize), byte('[')
		for i, one := range calls {
			b, next = jsonrpc.Begin(append(b, next), one.ID), ','
			if member := pending[i].member; len(member) > partSize {
				write(b)
				write(member)
				b = b[:0]
			} else {
				b = append(b, member...)
			}
			if b = append(b, '}'); len(b) > partSize {
				write(b)
				b = b[:0]
			}
		}
		write(append(b, ']'))
	})
	return nil
}

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
	for _, k := range pending {
		if k.answer == nil {
			continue
		}
		r := d.reader.Response(rec, k.query, k.answer)
		if response == nil || response.NoHeight || !r.NoHeight && r.Entry.Height < response.Entry.Height {
			response = &r
		}
	}
	if response != nil {
		response.Control = noStore
		d.reader.Stack.SetHeaders(c.Writer.Header(), response)
	}
}

var tooManyCalls = jsonrpc.Error(jsonrpc.InvalidRequest, "the batch has more calls than are taken at once")

// refuseLongBatch answers a batch of too many calls with an error for each of them, because the node's single
// error without an id would leave clients waiting. The response may be fifteen times as long as the body, so it
// is generated while it is written.
func refuseLongBatch(c *gin.Context, body []byte, size int) error {
	respond.SendParts(c.Writer, c.Request, http.StatusOK, respond.JSON, size, func(write func([]byte)) {
		b, next := make([]byte, 0, partSize+1<<10), byte('[')
		_, _ = jsonrpc.Each(body, func(one jsonrpc.Call) { // parsed before, so it cannot fail
			if one.ID == nil {
				return
			}
			b, next = jsonrpc.AppendAnswer(append(b, next), one.ID, tooManyCalls), ','
			if len(b) > partSize {
				write(b)
				b = b[:0]
			}
		})
		write(append(b, ']'))
	})
	return nil
}

const partSize = 16 << 10 // bytes of a long batch's response to write at once

// missingParams is the node's error for a call without parameters of a method that needs some.
var missingParams = jsonrpc.Error(jsonrpc.InternalError, "reflect: Call with too few input arguments")
