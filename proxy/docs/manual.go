package docs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/proxy/stream"
)

// The manual is the OpenAPI document as a page. It needs no font, no other file and no other server. Its script
// searches, and sends requests to the server that sent the page.
var (
	//go:embed manual.html
	manualPage string
	//go:embed manual.css
	manualStyle string
	//go:embed manual.js
	manualScript string
)

// somewhere is a placeholder for the server's address, which is known only per request.
const somewhere = "https://somewhere.invalid"

// policyOf returns a Content-Security-Policy that allows the page only its style, its script, and requests to its own
// server.
func policyOf(style, script string) string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(script) + "; connect-src 'self'; " +
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// renderManual renders the page.
func renderManual(d *description) ([]byte, error) {
	page, err := template.New("manual").Funcs(template.FuncMap{
		"prose": prose, "breakable": breakable, "indented": indented, "members": members, "schemaName": schemaName,
		"samples": func(of string, all []sample) any {
			return struct {
				Of      string
				Samples []sample
			}{of, all}
		},
		"style":  func() template.CSS { return template.CSS(manualStyle) },
		"script": func() template.JS { return template.JS(manualScript) },
	}).Parse(manualPage)
	if err != nil {
		return nil, fmt.Errorf("manual: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, manual{d}); err != nil {
		return nil, fmt.Errorf("manual: %w", err)
	}
	return b.Bytes(), nil
}

// A manual is the document with methods for the template.
type manual struct{ *description }

// Tagged returns the operations of a tag.
func (m manual) Tagged(tag string) (all []*huma.Operation) {
	for _, op := range m.operations {
		if op.Tags[0] == tag {
			all = append(all, op)
		}
	}
	return all
}

// Pages returns the parameters of all lists.
func (m manual) Pages() []*huma.Param { return m.shared(dialect.PageNames[:]) }

// Common returns the parameters of all operations.
func (m manual) Common() []*huma.Param { return m.shared(chainHeaders(m.o)) }

func (m manual) shared(names []string) (all []*huma.Param) {
	for _, name := range names {
		all = append(all, m.Components.Parameters[name])
	}
	return all
}

// Own returns the parameters of an operation that are not shared.
func (m manual) Own(op *huma.Operation) (own []*huma.Param) {
	for _, p := range op.Parameters {
		if p.Ref == "" {
			own = append(own, p)
		}
	}
	return own
}

// Paged reports whether an operation also takes the parameters of a page.
func (m manual) Paged(op *huma.Operation) bool {
	return slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Ref == parameterRefs+dialect.PageLimit })
}

// Body returns the name of the schema of an operation's request body.
func (m manual) Body(op *huma.Operation) string {
	if op.RequestBody == nil {
		return ""
	}
	return schemaName(op.RequestBody.Content[respond.JSON].Schema)
}

// Example returns the example of an operation, with the response only if the document has one.
func (m manual) Example(op *huma.Operation) example {
	e := m.examples[op.OperationID]
	if content := answerOf(op); content.Example == nil {
		e.Answer = nil
	}
	return e
}

// answerOf returns the content of an operation's response, which may be a stream.
func answerOf(op *huma.Operation) *huma.MediaType {
	return cmp.Or(op.Responses["200"].Content[respond.JSON], op.Responses["200"].Content[stream.EventType])
}

// Members returns the members of a response's msg. If the body is a schema without msg, it returns the body alone.
func (m manual) Members(op *huma.Operation) []manualMember {
	body := answerOf(op).Schema
	msg := body.Properties["msg"]
	switch named := m.Components.Schemas.Map()[schemaName(body)]; {
	case m.o.Cosmos != nil && named != nil && named.Properties != nil:
		return members("", named)
	case msg == nil:
		return []manualMember{memberOf("body", body, false)}
	case msg.Type == huma.TypeObject:
		return members("msg", msg)
	default:
		return []manualMember{memberOf("msg", msg, false)}
	}
}

// Command returns a curl command for the operation's example.
func (m manual) Command(op *huma.Operation) string {
	command, options := "curl '"+somewhere+m.Target(op)+"'", ""
	if op.Security != nil {
		options = " \\\n  -H '" + limits.KeyHeader + ": <API_KEY>'"
	}
	switch {
	case op.RequestBody != nil:
		options += " \\\n  -H 'Content-Type: application/json' \\\n  -d '" + indented(m.examples[op.OperationID].Request) + "'"
	case op.Path == stream.LivePath:
		options = " -N" + options
	}
	return command + options
}

// Target returns the path and query of the operation's example.
func (m manual) Target(op *huma.Operation) string {
	if op.Path == stream.LivePath {
		return op.Path + "?path=" + m.examplePath() + "&stream.blocks=true"
	}
	if op.Path == blocks.BatchPath {
		return op.Path + "?path=" + m.examplePath() + "&path=" + m.otherPath()
	}
	if u, err := m.examples[op.OperationID].target(); err == nil {
		return u.String()
	}
	return op.Path
}

// A manualMember is a member of an object at any depth, named by the path to it.
type manualMember struct {
	Name, Type, Text string
	Schema           string // name of the schema to link to
	List, Nullable   bool   // whether Schema is that of the items, or may be null
	Optional         bool
}

// memberOf describes a member with a schema.
func memberOf(name string, s *huma.Schema, optional bool) manualMember {
	if s.AnyOf != nil { // a reference, or null
		s = &huma.Schema{Ref: s.AnyOf[0].Ref, Nullable: true}
	}
	return manualMember{name, typeName(s), s.Description, schemaName(s), s.Items != nil, s.Nullable, optional}
}

// members lists the members of a schema and of the objects in it. Named schemas are linked, not listed.
func members(at string, s *huma.Schema) []manualMember {
	if s.Items != nil && s.Items.Properties != nil {
		return members(at+"[]", s.Items)
	}
	var all []manualMember
	for _, name := range memberNames(s) {
		m, below := s.Properties[name], strings.TrimPrefix(at+"."+name, ".")
		all = append(all, memberOf(below, m, !slices.Contains(s.Required, name)))
		all = append(all, members(below, m)...)
	}
	return all
}

// memberNames returns the required members first, in the order of responses.
func memberNames(s *huma.Schema) []string {
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// schemaName returns the name of the schema that a schema, or its items, refers to.
func schemaName(s *huma.Schema) string {
	if s.Items != nil {
		s = s.Items
	}
	return strings.TrimPrefix(s.Ref, schemaRefs)
}

// typeName says what a value looks like.
func typeName(s *huma.Schema) string {
	name := s.Type
	switch {
	case s.Ref != "":
		name = "object"
	case s.Type == huma.TypeArray && s.Items.Ref == "":
		name = "list of " + typeName(s.Items) + "s"
	case s.Type == huma.TypeArray:
		name = "list"
	case s.ContentEncoding != "":
		name = s.ContentEncoding
	case s.Format == "date-time":
		name = "timestamp"
	case s.Pattern == documented.AmountPattern:
		name = "string, an integer"
	case s.Pattern == documented.DecimalPattern, s.Pattern == documented.FractionPattern:
		name = "string, a decimal"
	}
	if s.Nullable {
		name += " or null"
	}
	return name
}

var code = regexp.MustCompile("`([^`]*)`")

// prose renders the little of Markdown that descriptions use.
func prose(text string) template.HTML {
	text = code.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>")
	return template.HTML("<p>" + strings.ReplaceAll(text, "\n\n", "</p><p>") + "</p>")
}

// breakable allows a line break after each slash of a path.
func breakable(path string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(path), "/", "/<wbr>"))
}

// indented formats a JSON text.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return b.String()
}
