package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/gin-gonic/gin"
)

const problemType = "application/problem+json"

// A problem is the body of an answer of the collection interface that says no
// (RFC 9457). Every member is always there.
type problem struct {
	Schema   string     `json:"$schema" format:"uri-reference" doc:"A URL to the JSON Schema for this object."`
	Type     string     `json:"type" format:"uri-reference" example:"about:blank" doc:"A URI reference to documentation of the error; about:blank says that the title is all there is."`
	Title    string     `json:"title" example:"Bad Request" doc:"The meaning of the status."`
	Status   int        `json:"status" example:"400" doc:"HTTP status code."`
	Detail   string     `json:"detail" doc:"What is wrong with this request."`
	Instance string     `json:"instance" format:"uri-reference" doc:"The path that was asked for, and the id of the request."`
	Errors   violations `json:"errors" nullable:"false" doc:"Every violation found in the request."`
}

// A violation is one thing the documented schema does not allow.
type violation struct {
	Message  string `json:"message" doc:"What was expected."`
	Location string `json:"location" example:"body.pagination.limit" doc:"Where it was expected."`
	Value    any    `json:"value" doc:"What was there instead, cut short when it is long."`
}

// violations is an error for the log, too.
type violations []violation

// Error counts them and quotes the first, without the value: that is the
// client's own.
func (v violations) Error() string {
	return fmt.Sprintf("%d violations, the first: %s: %s", len(v), v[0].Location, v[0].Message)
}

// writeProblem is the renderer of the collection interface.
func (s *Server) writeProblem(c *gin.Context, f *failure) {
	found := violations{}
	_ = errors.As(f.Err, &found)
	h := c.Writer.Header()
	setAdvice(h, f)
	h.Set("Link", describedBy(problemSchema))
	send(c.Writer, c.Request, f.Status, problemType, encode(problem{
		Schema:   s.schemaURL(c.Request, problemSchema),
		Type:     "about:blank",
		Title:    http.StatusText(f.Status),
		Status:   f.Status,
		Detail:   f.Public,
		Instance: c.Request.URL.EscapedPath() + "#" + h.Get(requestIDHeader),
		Errors:   found,
	}))
}

// encode renders what is known to be encodable.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // no channels, functions, cycles or foreign JSON in it
	return b.Bytes()
}

// violations translates what huma found, with the real names of unexpected
// properties and their own values in place of the whole object's.
func (t *tree) violations(found []error) violations {
	var all violations
	for _, err := range found {
		var d *huma.ErrorDetail
		if !errors.As(err, &d) {
			continue
		}
		v := violation{Message: d.Message, Location: d.Location, Value: d.Value}
		if d.Message == validation.MsgUnexpectedProperty {
			object := d.Location[:strings.LastIndexByte(d.Location, '.')]
			m := t.extras[object][0] // huma tells of each once, in no order: ours is the order sent
			t.extras[object] = t.extras[object][1:]
			v.Location, v.Value = object+"."+short(m.name), m.value
		}
		v.Value = echo(v.Value)
		all = append(all, v)
	}
	return all
}

// maxEcho bounds what of the client's own a problem repeats, in bytes.
const maxEcho = 64

// echo is the value as it was sent, or the beginning of it as text.
func echo(v any) any {
	if text, ok := v.(string); ok {
		return short(text)
	}
	b := bytes.TrimSpace(encode(v))
	if len(b) <= maxEcho {
		return json.RawMessage(b)
	}
	return short(string(b))
}

// short cuts a text between two characters.
func short(text string) string {
	if len(text) <= maxEcho {
		return text
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(text[:maxEcho-len(ellipsis)], "") + ellipsis
}

// writeMiss is the renderer for what no route answers: in the form of the
// interface that its path belongs to.
func (s *Server) writeMiss(c *gin.Context, f *failure) {
	if s.o.Collections != nil && strings.HasPrefix(c.Request.URL.Path, apiPrefix) {
		s.writeProblem(c, f)
	} else {
		s.writeFailure(c, f)
	}
	c.Writer.WriteHeaderNow() // where no body follows, to a HEAD, Gin would add a text of its own
}
