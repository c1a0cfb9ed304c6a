package cosmos

import (
	"net/http"
	"net/url"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
)

// An endpoint serves one row of the table, and reads the nodes for it.
type endpoint struct {
	Endpoint *dialect.Endpoint
	h        *Handler
}

// admitKey returns the handler of ABCIQuery, which serves only the paths that [state.AdmitKey] admits.
func (ep *endpoint) admitKey(serve web.Handler) web.Handler {
	return func(r *web.Request) error {
		q, err := ep.Endpoint.Parse(r)
		switch {
		case err != nil:
			return err
		case dialect.Uncertain(q.Key):
			return failure.BadInput("the query cannot be read")
		}
		values, _ := url.ParseQuery(q.Ask.Query) // in canonical form
		if err := state.AdmitKey(ep.h.Reader.Stack, r, values.Get("path")); err != nil {
			return err
		}
		return serve(r)
	}
}

// nodeHeaders are the headers of the node's responses with a height. The last one is present if the node uses gRPC.
var nodeHeaders = []respond.ExtraHeader{
	{Name: cosmosHeader}, {Name: metadataHeader}, {Name: "Grpc-Metadata-Content-Type", Value: "application/grpc+cosmos-sdk-grpc-codec"},
}

// headers returns the headers of a response with a height. Successes name the height twice, errors once, and errors of
// the gateway not at all.
func (h *Handler) headers(status int) []respond.ExtraHeader {
	switch isOK, usesGRPC := status == http.StatusOK, h.usesGRPC.Load(); {
	case isOK && usesGRPC:
		return nodeHeaders
	case isOK:
		return nodeHeaders[:2]
	case usesGRPC:
		return nodeHeaders[1:]
	}
	return nil
}

// VaryHeights are the request headers that responses depend on, in addition to the URL.
const VaryHeights = respond.HeightHeader + ", " + cosmosHeader + ", " + metadataHeader + ", " + respond.MinHeightHeader + ", Accept"

// responseHeaders returns the headers of a response. Like the node, it sends no height with an error that does not depend on
// state.
func (ep *endpoint) responseHeaders(e *cache.Entry, key string) blocks.ResponseHeaders {
	return blocks.ResponseHeaders{Vary: VaryHeights, NoHeight: ep.stateless(e, key), Extra: ep.h.headers(e.Status)}
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
	if ep.Endpoint.Row.Class.Fixed() {
		return dialect.Uncertain(key)
	}
	ofState := e.Status == http.StatusInternalServerError && e.Source != 0
	return !e.Expires.IsZero() && !ofState
}
