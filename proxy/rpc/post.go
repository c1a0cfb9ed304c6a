package rpc

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
)

// servePost answers a body: a call, or a batch.
func (d *Handler) servePost(c *gin.Context, rec *web.Record, body []byte) error {
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
		rec.Route = routeOf(run[0].Method)
	}
	return d.answerCalls(c, rec, run, hs)
}

// refuse answers a body as the node does: with a 500, which is the client's doing.
func refuse(c *gin.Context, rec *web.Record, id json.RawMessage, member []byte) error {
	rec.Blameless = true
	web.Send(c.Writer, c.Request, http.StatusInternalServerError, web.JSON, jsonrpc.AppendAnswer(nil, id, member))
	return nil
}

// routeOf is the name of a method in metrics.
func routeOf(method string) string {
	if methods[method] == nil {
		return web.NoRoute
	}
	return "rpc " + method
}
