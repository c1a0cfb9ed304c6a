package docs

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// addChain adds an operation for each row of the route table.
func (d *description) addChain() {
	schemas := d.Components.Schemas.Map()
	schemas["Refusal"] = refusal(d.o.Story.Shape)
	d.addRefusals()
	d.messages = storyMessages()
	for _, rt := range story.Table(d.o.Rows) {
		op := d.parts.Operations[rt.Name]
		if op == nil { // a row of the operator
			op = &huma.Operation{Summary: "Read " + rt.Name}
		}
		module, _, _ := strings.Cut(rt.Pattern[1:], "/")
		d.addRow(rt.Row, module, op.Summary, op.Description, d.chainAnswer(rt))
	}
}

// addRow adds the operation of a row of either dialect's table, and its tag. It adds nothing if an earlier row has the same
// path.
func (d *description) addRow(row dialect.Row, tag, summary, doc string, answer *huma.Response) {
	path := variable.ReplaceAllString(row.Pattern, "{$1}")
	if d.Paths[path] != nil {
		return
	}
	if !slices.ContainsFunc(d.Tags, func(t *huma.Tag) bool { return t.Name == tag }) {
		d.Tags = append(d.Tags, &huma.Tag{Name: tag, Description: "Queries of " + tag + "."})
	}
	op := &huma.Operation{
		Method: http.MethodGet, Path: path, OperationID: row.Name, Tags: []string{tag},
		Summary: summary, Description: doc,
		Parameters: d.parameters(row), Responses: d.responses(answer), Security: d.security(d.o.Auth),
	}
	if row.Class == blocks.Never { // it cannot be streamed
		delete(op.Responses, strconv.Itoa(http.StatusNoContent))
	} else {
		op.Parameters = append(op.Parameters, d.referred(web.SinceParameter)...)
	}
	if row.Class == blocks.Found {
		op.Parameters = append(op.Parameters, d.parts.Parameters[stream.WaitParameter])
	}
	d.add(op)
}

// textValue is the schema of a parameter without a form of its own.
var textValue = huma.Schema{Type: huma.TypeString}

// variable matches a variable of a pattern.
var variable = regexp.MustCompile(`\{([^:=}]+)[^}]*\}`)

// parameters returns the parameters of the row, then those that all rows have.
func (d *description) parameters(row dialect.Row) (all []*huma.Param) {
	var examples map[string]string
	if u := d.examples[row.Name].target(); u != nil {
		_, examples = parametersOf(row.Pattern, u)
	}
	for _, m := range variable.FindAllStringSubmatch(row.Pattern, -1) {
		all = append(all, d.parameter(m[1], "path", examples))
	}
	for _, word := range strings.Fields(row.Query) {
		switch name, _, _ := strings.Cut(word, ":"); name {
		case dialect.Pagination:
			all = append(all, d.referred(dialect.PageNames[:]...)...)
		case "*":
		default:
			all = append(all, d.parameter(name, "query", examples))
		}
	}
	return append(append(all, d.referred(urlHeights(d.o)...)...), d.referred(chainHeaders(d.o)...)...)
}

// referred returns references to shared parameters.
func (d *description) referred(names ...string) []*huma.Param {
	all := make([]*huma.Param, len(names))
	for i, name := range names {
		all[i] = &huma.Param{Ref: parameterRefs + parameterComponent(d.parts.Parameters[name])}
	}
	return all
}

// parameter describes a parameter of a row. Parameters of SDK chains have no description.
func (d *description) parameter(name, in string, examples map[string]string) *huma.Param {
	p := huma.Param{Schema: &textValue}
	if known := d.parts.RowParameters[name]; known != nil && d.o.Cosmos == nil {
		p = *known
	}
	if d.o.Story.Shape == story.Node { // the node checks it
		p.Schema = &textValue
	}
	p.Name, p.In, p.Required = name, in, p.Required || in == "path"
	if value, ok := examples[name]; ok {
		p.Example = value
	}
	return &p
}

// responses returns the response of a row and the errors that all rows share.
func (d *description) responses(answer *huma.Response) map[string]*huma.Response {
	all := map[string]*huma.Response{"200": answer}
	for _, r := range d.Refusals() {
		all[strconv.Itoa(r.Status)] = &huma.Response{Ref: responseRefs + r.component()}
	}
	return all
}

// chainAnswer describes the response of a row of Story.
func (d *description) chainAnswer(rt story.Route) *huma.Response {
	answer := d.answer()
	content := answer.Content[respond.JSON]
	shaped := rt.Msg != nil && d.o.Story.Shape == story.Documented
	switch msg, ok := d.messages[rt.Name]; {
	case shaped:
		content.Schema = successOf(d.schema(rt.Msg))
	case ok:
		content.Schema = successOf(msg)
	default: // the schema that answer refers to
		d.Components.Schemas.Map()["Answer"] = successOf(&huma.Schema{Type: huma.TypeObject, Description: "The response in the node's own shape."})
	}
	if example := d.examples[rt.Name].Answer; example != nil && (shaped || rt.Msg == nil) {
		content.Example = example
	}
	if shaped && rt.Msg.Kind == documented.ListKind { // the complete list, without a place for the next page key
		answer.Headers[linkHeader] = d.header(linkHeader)
	}
	answer.Content[stream.EventType] = eventContent()
	return answer
}

// answer returns a response in the node's own shape.
func (d *description) answer() *huma.Response {
	return &huma.Response{
		Description: "The response at the block in `X-Block-Height`.",
		Headers:     d.headersOf(respond.HeightHeader, session.Header, session.ResetHeader, etagHeader),
		Content:     d.content(respond.JSON, "Answer", nil),
	}
}

// successOf returns the envelope of a successful response.
func successOf(msg *huma.Schema) *huma.Schema {
	return envelope(
		&huma.Schema{Type: huma.TypeInteger, Enum: []any{http.StatusOK}, Description: "The HTTP status."}, msg,
		&huma.Schema{Type: huma.TypeString, Enum: []any{""}, Description: "Empty in a successful response."},
	)
}

// refusal returns the envelope of an error.
func refusal(shape story.Shape) *huma.Schema {
	return envelope(
		&huma.Schema{Type: huma.TypeInteger, Format: "int32", Description: "The HTTP status."},
		&huma.Schema{Type: huma.TypeObject, Nullable: shape == story.Node, Description: "Empty in an error."},
		&huma.Schema{Type: huma.TypeString, Description: "The error message. If the node refused the request, it is the node's text."},
	)
}

func envelope(code, msg, text *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"code", "msg", "error"},
		Properties: map[string]*huma.Schema{"code": code, "msg": msg, "error": text},
	}
}

// schema returns the OpenAPI schema of a documented schema. One with a title becomes a component, and schema returns a
// reference to it.
func (d *description) schema(s *documented.Schema) *huma.Schema {
	if s.Title == "" {
		return d.inline(s)
	}
	if components := d.Components.Schemas.Map(); components[s.Title] == nil {
		components[s.Title] = d.inline(s)
	}
	return &huma.Schema{Ref: schemaRefs + s.Title}
}

func (d *description) inline(s *documented.Schema) *huma.Schema {
	made := &huma.Schema{Type: string(s.Kind), Description: s.Doc, Pattern: s.Pattern, Format: s.Format, Nullable: s.Nullable}
	switch s.Kind {
	case documented.ObjectKind:
		made.Properties = map[string]*huma.Schema{}
		for _, m := range s.Members {
			p := d.schema(m.Schema)
			p.Description = m.Doc
			made.Properties[m.Name] = p
			if m.Presence == documented.Required || m.Presence == documented.Mandatory {
				made.Required = append(made.Required, m.Name)
			}
		}
	case documented.ListKind:
		made.Items = d.schema(s.Items)
	}
	return made
}
