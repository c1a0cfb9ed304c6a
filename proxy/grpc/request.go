package grpc

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tipcache/tipcache/proxy/web"
)

// known are the headers that metadata stand for, of the headers that are looked at.
var known = []struct{ key, header string }{
	{heightKey, heightHeader}, {"x-min-block-height", web.MinHeightHeader}, {"x-api-key", web.APIKeyHeader},
	{"x-forwarded-for", "X-Forwarded-For"}, {"x-request-id", web.RequestIDHeader}, {"user-agent", "User-Agent"},
	{"traceparent", "Traceparent"}, {"tracestate", "Tracestate"},
}

// requestOf is a call as a request of HTTP, which it is: limits, keys and records know those.
func requestOf(ctx context.Context, name string) *http.Request {
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: name}, RequestURI: name, ProtoMajor: 2, Header: make(http.Header, len(known))}
	for _, k := range known { // all metadata would be copied
		if values := metadata.ValueFromIncomingContext(ctx, k.key); values != nil {
			r.Header[k.header] = values
		}
	}
	if from, ok := peer.FromContext(ctx); ok {
		if on, ours := from.AuthInfo.(*connection); ours {
			r.RemoteAddr, ctx = on.remote, on.conn.With(ctx)
		} else if from.Addr != nil {
			r.RemoteAddr = from.Addr.String()
		}
	}
	return r.WithContext(ctx)
}
