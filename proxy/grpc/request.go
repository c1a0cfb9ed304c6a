package grpc

import (
	"context"
	"net/http"
	"net/url"

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
	r := http.Request{Method: http.MethodPost, URL: &url.URL{Path: name}, RequestURI: name, ProtoMajor: 2, Header: http.Header{}}
	if c, _ := ctx.Value(callKey{}).(*callContext); c != nil {
		for _, k := range known {
			if values := c.metadata[k.key]; values != nil {
				r.Header[k.header] = values[:len(values):len(values)]
			}
		}
		if c.on != nil {
			r.RemoteAddr = c.on.remote
		}
	}
	return r.WithContext(ctx)
}
