package cosmos

import (
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An endpoint serves one row of the table, and reads the nodes for it.
type endpoint struct {
	*dialect.Endpoint
	h *Handler
}

// refuse answers a request with a malformed height: with the node's response if the node does not have the path, otherwise with
// the error.
func (ep *endpoint) refuse(c *gin.Context, rec *record.Record, q *dialect.RowQuery, bad error) error {
	ctx := ep.Deadline(c.Request, rec)
	defer ctx.Release()
	q.Heights = blocks.Heights{}
	if ep.Class == blocks.Never {
		a, err := q.Fetch(ctx, node.Request{Height: node.AtTip, Unpinned: true, Cost: q.Cost, Client: rec.Client.Name()}, nil)
		if err != nil || a.NodeStatus != http.StatusNotImplemented {
			return bad
		}
		rec.Blameless = true // the client asked for a path that the node does not have
		ep.h.send(c, a)
		return nil
	}
	a, err := ep.Lookup(ctx, c.Request, rec, &q.Query, ep.Nodes.Tip())
	if err != nil || a.Entry.Status != http.StatusNotImplemented {
		return bad
	}
	ep.Respond(c.Writer, c.Request, rec, &q.Query, &a)
	return nil
}

// admitKey returns the handler of ABCIQuery, which serves only the paths that [state.AdmitKey] admits.
func (ep *endpoint) admitKey(serve web.Handler) web.Handler {
	return func(c *gin.Context, rec *record.Record) error {
		q, _ := ep.Parse(c.Request) // fails only for heights
		if dialect.Uncertain(q.Key) {
			return failure.BadInput("the query cannot be read")
		}
		values, _ := url.ParseQuery(q.RawQuery) // in canonical form
		if err := state.AdmitKey(ep.Stack, c.Request, rec, c.Writer.Header(), values.Get("path")); err != nil {
			return err
		}
		return serve(c, rec)
	}
}

// nodeHeaders are the headers of the node's responses with a height: successes name the height twice, errors once, and errors
// of the gateway not at all.
type nodeHeaders struct {
	codec            string
	success, failure []respond.ExtraHeader
}

// noteCodec records how the node names its codec, for responses from the cache.
func (h *Handler) noteCodec(codec string) {
	if t := h.nodeHeaders.Load(); t != nil && t.codec == codec {
		return
	}
	again, height := respond.ExtraHeader{Name: metadataHeader}, respond.ExtraHeader{Name: cosmosHeader}
	t := &nodeHeaders{codec: codec, success: []respond.ExtraHeader{again, height}}
	if codec != "" {
		line := respond.ExtraHeader{Name: "Grpc-Metadata-Content-Type", Value: codec}
		t.success, t.failure = []respond.ExtraHeader{line, again, height}, []respond.ExtraHeader{line, again}
	}
	h.nodeHeaders.Store(t)
}

// lines returns the headers of a response with a height.
func (h *Handler) lines(status int) []respond.ExtraHeader {
	if status == http.StatusOK {
		return h.nodeHeaders.Load().success
	}
	return h.nodeHeaders.Load().failure
}

// VaryHeights are the request headers that responses depend on, in addition to the URL.
const VaryHeights = respond.HeightHeader + ", " + cosmosHeader + ", " + metadataHeader + ", " + respond.MinHeightHeader + ", Accept"

// responseHeaders returns the headers of a response. Like the node, it sends no height with an error that does not depend on
// state.
func (ep *endpoint) responseHeaders(e *cache.Entry, key string) blocks.ResponseHeaders {
	return blocks.ResponseHeaders{Vary: VaryHeights, NoHeight: ep.stateless(e, key), Extra: ep.h.lines(e.Status)}
}

// stateless reports whether an entry does not depend on state. Errors of a fixed kind always expire, so these count only if the
// node did not understand the request. Internal errors at a height expire, too, in case they are not the state's.
func (ep *endpoint) stateless(e *cache.Entry, key string) bool {
	switch e.Status {
	case http.StatusOK, http.StatusNotFound:
		return false
	case http.StatusNotImplemented, http.StatusGatewayTimeout:
		return true
	}
	if ep.Class.Fixed() {
		return dialect.Uncertain(key)
	}
	ofState := e.Status == http.StatusInternalServerError && e.Source != 0
	return !e.Expires.IsZero() && !ofState
}
