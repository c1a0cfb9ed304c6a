package docs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"html/template"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
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

func renderManual(d *description) []byte {
	page := template.Must(template.New("manual").Funcs(template.FuncMap{
		"prose": prose, "breakable": breakable, "indented": indented, "members": members, "schemaName": schemaName,
		"samples": func(of string, all []sample) any {
			return struct {
				Of      string
				Samples []sample
			}{of, all}
		},
		"style":  func() template.CSS { return template.CSS(manualStyle) },
		"script": func() template.JS { return template.JS(manualScript) },
	}).Parse(manualPage))
	var b bytes.Buffer
	must(page.Execute(&b, manual{d}))
	return b.Bytes()
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
		all = append(all, m.parts.Parameters[name])
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

// Target returns the path and query of the operation's example.
func (m manual) Target(op *huma.Operation) string {
	if op.Path == stream.LivePath {
		return op.Path + "?path=" + m.examplePath() + "&stream.blocks=true"
	}
	if op.Path == blocks.BatchPath {
		return op.Path + "?path=" + m.examplePath() + "&path=" + m.otherPath()
	}
	if u := m.examples[op.OperationID].target(); u != nil {
		return u.String()
	}
	return op.Path
}
