package grpc

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/web"
)

// codeOf are the codes of gRPC for failures that HTTP has a status for; others are internal.
var codeOf = map[int]codes.Code{
	http.StatusBadRequest:                  codes.InvalidArgument,
	http.StatusUnauthorized:                codes.Unauthenticated,
	http.StatusForbidden:                   codes.PermissionDenied,
	http.StatusNotFound:                    codes.NotFound,
	http.StatusRequestEntityTooLarge:       codes.ResourceExhausted,
	http.StatusRequestURITooLong:           codes.ResourceExhausted,
	http.StatusTooManyRequests:             codes.ResourceExhausted,
	http.StatusRequestHeaderFieldsTooLarge: codes.ResourceExhausted,
	http.StatusNotImplemented:              codes.Unimplemented,
	http.StatusBadGateway:                  codes.Unavailable,
	http.StatusServiceUnavailable:          codes.Unavailable,
	http.StatusGatewayTimeout:              codes.Unavailable,
}

// failed is the status of a call that is not answered. When it may be tried again is in the
// trailers, as clients of gRPC read it that try by themselves.
func (k *call) failed(err error) error {
	if gone := k.stream.Context().Err(); gone != nil {
		return status.FromContextError(gone).Err()
	}
	f := web.FailureOf(err)
	code, known := codeOf[f.Status]
	if !known {
		code = codes.Internal
	}
	md := metadata.MD{}
	for name, values := range k.answer {
		md[strings.ToLower(name)] = values
	}
	if f.RetryAfter > 0 {
		md["grpc-retry-pushback-ms"] = []string{strconv.FormatInt(f.RetryAfter.Milliseconds(), 10)}
	}
	k.stream.SetTrailer(md)
	return status.Error(code, f.Public)
}
