package cosmos

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// An endpoint serves one row of the table, and asks the nodes for what it is about.
type endpoint struct {
	*dialect.Endpoint
	h *Handler
}

// serve answers a request whose path no other row describes.
func (ep *endpoint) serve(c *gin.Context, rec *record.Record) error {
	q, err := ep.Parse(c.Request)
	switch {
	case err != nil:
		return ep.refuse(c, rec, q, err)
	case ep.Class == Never:
		return ep.Pass(c, rec, q)
	}
	return ep.Reply(c, rec, q)
}

// refuse answers a request whose height is none. Where it is not known whether there is such a path,
// the node is asked that first.
func (ep *endpoint) refuse(c *gin.Context, rec *record.Record, q *dialect.RowQuery, bad error) error {
	ctx := ep.Deadline(c.Request, rec)
	defer ctx.Release()
	q.Heights = blocks.Heights{}
	a, err := ep.Lookup(ctx, c.Request, rec, &q.Query, ep.Nodes.Tip())
	if err != nil || a.Entry.Status != http.StatusNotImplemented {
		return bad
	}
	ep.Respond(c.Writer, c.Request, rec, &q.Query, &a)
	return nil
}

// nodeHeaders are what the node's answers say of themselves, as header lines: successes name the
// height twice, errors once, and not at all without gRPC.
type nodeHeaders struct {
	codec       string
	success, no []respond.ExtraHeader
}

// noteCodec remembers how the node names its codec, so that answers from the cache do, too.
func (h *Handler) noteCodec(codec string) {
	if t := h.nodeHeaders.Load(); t != nil && t.codec == codec {
		return
	}
	again, height := respond.ExtraHeader{Name: metadataHeader}, respond.ExtraHeader{Name: cosmosHeader}
	t := &nodeHeaders{codec: codec, success: []respond.ExtraHeader{again, height}}
	if codec != "" {
		line := respond.ExtraHeader{Name: "Grpc-Metadata-Content-Type", Value: codec}
		t.success, t.no = []respond.ExtraHeader{line, again, height}, []respond.ExtraHeader{line, again}
	}
	h.nodeHeaders.Store(t)
}

// lines are the header lines of an answer that tells its height.
func (h *Handler) lines(status int) []respond.ExtraHeader {
	if status == http.StatusOK {
		return h.nodeHeaders.Load().success
	}
	return h.nodeHeaders.Load().no
}

// VaryHeights names the request headers that choose between the answers of a URL.
const VaryHeights = respond.HeightHeader + ", " + cosmosHeader + ", " + metadataHeader + ", " + respond.MinHeightHeader + ", Accept"

// tell adds the heights to an answer, where the node tells them. An error that the node gives before it
// reads a state tells none, and is known by its short life.
func (ep *endpoint) tell(e *cache.Entry, key string) blocks.ResponseHeaders {
	return blocks.ResponseHeaders{Vary: VaryHeights, NoHeight: ep.stateless(e, key), Extra: ep.h.lines(e.Status)}
}

// stateless reports whether an entry says nothing about state. An entry of a fixed kind has a short lifetime
// in any case, and says nothing only where the node did not understand the question.
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
	return !e.Expires.IsZero()
}
