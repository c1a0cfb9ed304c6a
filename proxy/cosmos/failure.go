package cosmos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
)

// codes are the gRPC codes for the HTTP statuses of tipcache's own errors. All other statuses have unknownCode.
var codes = map[int]int{
	http.StatusBadRequest: 3, http.StatusUnauthorized: 16, http.StatusForbidden: 7, http.StatusNotFound: 5,
	http.StatusRequestEntityTooLarge: 3, http.StatusRequestURITooLong: 3, http.StatusRequestHeaderFieldsTooLarge: 3,
	http.StatusTooManyRequests: 8, http.StatusInternalServerError: 2, http.StatusNotImplemented: 12,
	http.StatusMethodNotAllowed: 12, http.StatusBadGateway: 14, http.StatusServiceUnavailable: 14, http.StatusGatewayTimeout: 4,
}

const unknownCode = 2

// errNotImplemented is the node's error for a request without a route.
var errNotImplemented = &failure.Failure{Status: http.StatusNotImplemented, Public: "Not Implemented", Expected: true}

// RenderFailure renders a failure in the form of the node's errors.
func RenderFailure(_ *web.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte) {
	f.SetAdvice(h)
	if upstream.MayHaveRun(f) {
		return f.Status, respond.JSON, errorBody(unknownCode, f.Public)
	}
	return f.Status, respond.JSON, ErrorBody(f.Status, f.Public)
}

// ErrorBody returns the body of an error response.
func ErrorBody(status int, text string) []byte {
	return errorBody(cmp.Or(codes[status], unknownCode), text)
}

func errorBody(code int, text string) []byte {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false) // like the node
	_ = encoder.Encode(text)     // a string always encodes
	return fmt.Appendf(nil, `{"code":%d,"message":%s,"details":[]}`, code, bytes.TrimSpace(quoted.Bytes()))
}
