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

// answerCalls answers the calls of a batch that have an id, of which there are several.
func (d *Handler) answerCalls(c *gin.Context, rec *record.Record, calls []jsonrpc.Call, hs blocks.Heights) error {
	done, err := d.reader.Stack.HoldStream(int64(len(calls)-1) * callCost)
	if err != nil {
		return err
	}
	defer done()
	asked, members := make([]*asking, len(calls)), make([][]byte, len(calls))
	for i, one := range calls {
		if asked[i], members[i] = d.ask(one, hs); asked[i] == nil && members[i] == nil {
			return refuse(c, rec, jsonrpc.NoID, tooFew)
		}
		if err := asked[i].admit(c.Request, rec, c.Writer.Header()); err != nil {
			asked[i], members[i] = nil, memberOf(failure.Of(err))
		}
	}
	d.charge(c.Request, rec, asked, members)
	all, errs := d.run(c.Request, rec, asked)
	size := 2
	for i := range calls {
		if asked[i] != nil {
			members[i] = all[i].member
		}
		if errs[i] != nil {
			members[i] = memberOf(failure.Of(errs[i]))
		}
		size += len(members[i]) + len(calls[i].ID) + 32
	}
	release, err := d.reader.Stack.HoldResponse(c.Request, size)
	if err != nil {
		return err
	}
	defer release()
	b, next := make([]byte, 0, size), byte('[')
	for i, one := range calls {
		b, next = jsonrpc.AppendAnswer(append(b, next), one.ID, members[i]), ','
	}
	d.tell(c, rec, all)
	advise(c.Writer.Header(), rec, all...)
	respond.Send(c.Writer, c.Request, http.StatusOK, respond.JSON, append(b, ']'))
	return nil
}

// charge takes a request from the client's limits for each call after the first, which the request
// itself has paid for.
func (d *Handler) charge(from *http.Request, rec *record.Record, asked []*asking, members [][]byte) {
	payer, err := d.reader.Stack.Payer(from, rec)
	if err != nil {
		return
	}
	for i := 1; i < len(asked); i++ {
		if asked[i] != nil && payer.Pay(context.WithoutCancel(from.Context())) > 0 {
			asked[i], members[i] = nil, jsonrpc.Error(jsonrpc.ServerError, "too many requests; try again later")
		}
	}
}

// tell says at which block the calls were answered, of several the lowest, and where the
// answer comes from.
func (d *Handler) tell(c *gin.Context, rec *record.Record, all []answered) {
	var told *respond.Response
	for _, one := range all {
		if one.answer == nil {
			continue
		}
		t := d.reader.Response(rec, one.query, one.answer)
		if told == nil || told.NoHeight || !t.NoHeight && t.Entry.Height < told.Entry.Height {
			told = &t
		}
	}
	if told != nil {
		told.Control = notKept
		d.reader.Stack.Tell(c.Writer.Header(), told)
	}
}

var tooMany = jsonrpc.Error(jsonrpc.InvalidRequest, "the batch has more calls than are taken at once")

// tooLong answers a batch of more calls than are taken, with an error for each of them. The node's one
// error without an id leaves clients waiting. The answers may be thirteen times as long as the body, so
// that they are made while they are written.
func tooLong(c *gin.Context, body []byte, size int) error {
	respond.SendParts(c.Writer, c.Request, http.StatusOK, respond.JSON, size, func(write func([]byte)) {
		b, next := make([]byte, 0, partSize+1<<10), byte('[')
		_, _ = jsonrpc.Each(body, func(one jsonrpc.Call) { // it was read before
			if one.ID == nil {
				return
			}
			b, next = jsonrpc.AppendAnswer(append(b, next), one.ID, tooMany), ','
			if len(b) > partSize {
				write(b)
				b = b[:0]
			}
		})
		write(append(b, ']'))
	})
	return nil
}

const partSize = 16 << 10 // of the answers to a batch that is too long

// tooFew is what the node says to a call without parameters where there have to be some.
var tooFew = jsonrpc.Error(jsonrpc.InternalError, "reflect: Call with too few input arguments")
