package collections

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// ProblemType is the media type of a problem.
const ProblemType = "application/problem+json"

// A problem is the body of an error response (RFC 9457). All members are always present.
type problem struct {
	Schema   string     `json:"$schema" format:"uri-reference" doc:"A URL to the JSON Schema for this object."`
	Type     string     `json:"type" format:"uri-reference" example:"about:blank" doc:"A URI reference to documentation of the error, or about:blank if there is none."`
	Title    string     `json:"title" example:"Bad Request" doc:"The meaning of the status."`
	Status   int        `json:"status" example:"400" doc:"HTTP status code."`
	Detail   string     `json:"detail" doc:"Description of the error."`
	Instance string     `json:"instance" format:"uri-reference" doc:"The requested path, and the id of the request."`
	Errors   violations `json:"errors" nullable:"false" doc:"All violations in the request."`
}

// A violation is one violation of the documented schema.
type violation struct {
	Message  string `json:"message" doc:"Description of the violation."`
	Location string `json:"location" example:"body.pagination.limit" doc:"Place of the violation in the request."`
	Value    any    `json:"value" doc:"Received value, shortened if it is long."`
}

// violations is also an error for the log.
type violations []violation

// Error returns the number of violations and the first one without the client's value.
func (v violations) Error() string {
	return fmt.Sprintf("%d violations, the first: %s: %s", len(v), v[0].Location, v[0].Message)
}

// RenderProblem renders errors of the collections API.
func (h *Handler) RenderProblem(r *web.Request, header http.Header, f *failure.Failure) (status int, typ string, body []byte) {
	found := violations{}
	_ = errors.As(f.Err, &found)
	f.SetAdvice(header)
	schema := h.schemaURL(r, ProblemSchema)
	header.Set("Link", describedBy(schema))
	header.Set("Accept-Query", respond.JSON)
	switch f {
	case errNotJSON:
		header.Set("Accept", respond.JSON)
	case errCompressed:
		header.Set("Accept-Encoding", "identity")
	}
	return f.Status, ProblemType, encode(problem{
		Schema:   schema,
		Type:     "about:blank",
		Title:    http.StatusText(f.Status),
		Status:   f.Status,
		Detail:   f.Public,
		Instance: r.Base + r.URL.EscapedPath() + "#" + header.Get(respond.RequestIDHeader),
		Errors:   found,
	})
}

// Errors that do not depend on the request's content.
var (
	errClosed     = &failure.Failure{Status: http.StatusForbidden, Public: "the listing of collections is closed on this server"} // for clients with a key for the chain's API
	errNotJSON    = &failure.Failure{Status: http.StatusUnsupportedMediaType, Public: "the request body must be application/json"}
	errCompressed = &failure.Failure{Status: http.StatusUnsupportedMediaType, Public: "the request body must not be compressed"}
	errTooLarge   = &failure.Failure{Status: http.StatusRequestEntityTooLarge, Public: fmt.Sprintf("request body is too large limit=%d bytes", maxListBody)}
	errNoBody     = &failure.Failure{Status: http.StatusBadRequest, Public: "request body is required"}
	// The client may retry while a store is filled for the first time.
	errFilling = &failure.Failure{
		Status: http.StatusServiceUnavailable, Public: "the collection store is being filled for the first time", RetryAfter: 5 * time.Second, Expected: true,
	}
)

func unreadable(err error) error {
	var (
		limited *http.MaxBytesError
		slow    net.Error
		refusal *failure.Failure
	)
	switch {
	case errors.As(err, &refusal):
		return err
	case errors.As(err, &limited):
		return errTooLarge
	case errors.As(err, &slow) && slow.Timeout():
		return &failure.Failure{Status: http.StatusRequestTimeout, Public: "request body read timeout", Err: err}
	default:
		return &failure.Failure{Status: http.StatusBadRequest, Public: "cannot read request body", Err: err}
	}
}

func malformedBody(err error) error {
	return &failure.Failure{
		Status: http.StatusBadRequest,
		Public: "request body is malformed",
		Err:    violations{{Message: err.Error(), Location: "body"}},
	}
}

// echo returns a value of the request, or the beginning of a long one as text.
func echo(sent gjson.Result) any {
	if sent.Type == gjson.String {
		return strings.Clone(web.Short(sent.Str)) // not a part of the body
	}
	return excerpt(sent.Raw)
}

// excerpt does not copy long values.
func excerpt(raw string) any {
	const long = 4 << 10
	if len(raw) > long {
		return web.Short(raw)
	}
	b := bytes.TrimSpace(encode(json.RawMessage(raw)))
	if text := web.Short(string(b)); text != string(b) {
		return text
	}
	return json.RawMessage(b)
}

// ExampleProblem returns an example problem for documents.
func ExampleProblem(status int, detail, requestID string) any {
	found := violations{}
	if status == http.StatusUnprocessableEntity {
		found = violations{{Message: "expected number <= 200", Location: "body.pagination.limit", Value: 201}}
	}
	return problem{
		Schema: Prefix + ProblemSchema + documentSuffix, Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: detail, Instance: Path + "#" + requestID, Errors: found,
	}
}
