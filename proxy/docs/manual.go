package docs

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// The manual is the OpenAPI document as a page for people. It needs nothing
// but itself: no font, no other file, no other server. Its script searches, and
// sends requests to the server that the page came from.
var (
	//go:embed manual.html
	manualPage string
	//go:embed manual.css
	manualStyle string
	//go:embed manual.js
	manualScript string
)

// somewhere stands on the page where the server's address belongs, which is
// known only when the page is asked for.
const somewhere = "https://somewhere.invalid"

// manualPolicy lets the page have its style and its script, and ask its own
// server; nothing else.
func manualPolicy() string {
	return "default-src 'none'; style-src " + hashOf(manualStyle) + "; script-src " + hashOf(manualScript) + "; connect-src 'self'; " +
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// A manual fills the page.
type manual struct {
	*description
	Style    template.CSS
	Script   template.JS
	Groups   []manualGroup
	Pages    []*huma.Param // what all lists take
	Common   []*huma.Param // what all operations take
	Statuses []manualStatus
	Headers  []manualMember
	Schemas  []manualSchema
}

// A manualGroup is the operations of a tag.
type manualGroup struct {
	*huma.Tag
	Operations []manualOperation
}

type manualOperation struct {
	*huma.Operation
	Own      []*huma.Param  // parameters that are not shared
	Paged    bool           // takes those of a page, too
	Body     string         // name of the request's schema
	Members  []manualMember // of the answer
	Statuses []manualStatus
	Request  string // a command to try
	Target   string // path and query of the same
	Sent     string // its body
	Answer   string
}

// A manualMember is a member of an object at any depth, named by the path to it.
type manualMember struct {
	Name, Type, Text string
	Schema           string // the name of the one that says more
	Optional         bool
}

type manualSchema struct {
	Name, Text string
	Members    []manualMember
}

type manualStatus struct {
	Code, Text string
	Shared     bool // said once for all operations
}

// renderManual makes the page.
func renderManual(d *description) ([]byte, error) {
	page, err := template.New("manual").Funcs(template.FuncMap{"prose": prose, "breakable": breakable}).Parse(manualPage)
	if err != nil {
		return nil, fmt.Errorf("manual: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, d.manual()); err != nil {
		return nil, fmt.Errorf("manual: %w", err)
	}
	return b.Bytes(), nil
}

func (d *description) manual() manual {
	m := manual{description: d, Style: template.CSS(manualStyle), Script: template.JS(manualScript), Groups: d.manualGroups()}
	for _, name := range chain.PageNames {
		m.Pages = append(m.Pages, d.Components.Parameters[name])
	}
	for _, name := range chainHeaders(d.o) {
		m.Common = append(m.Common, d.Components.Parameters[name])
	}
	for _, r := range d.refusals() {
		m.Statuses = append(m.Statuses, manualStatus{Code: strconv.Itoa(r.status), Text: r.doc})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Components.Headers)) {
		m.Headers = append(m.Headers, manualMember{Name: name, Text: d.Components.Headers[name].Description})
	}
	schemas := d.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		m.Schemas = append(m.Schemas, manualSchema{name, schemas[name].Description, members("", schemas[name])})
	}
	return m
}

func (d *description) manualGroups() []manualGroup {
	var all []manualGroup
	for _, tag := range d.Tags {
		g := manualGroup{Tag: tag}
		for _, op := range d.operations {
			if op.Tags[0] == tag.Name {
				g.Operations = append(g.Operations, d.manualOperation(op))
			}
		}
		all = append(all, g)
	}
	return all
}

func (d *description) manualOperation(op *huma.Operation) manualOperation {
	m := manualOperation{Operation: op, Request: d.command(op), Target: d.target(op), Sent: indented(d.examples[op.OperationID].Request), Answer: indented(d.examples[op.OperationID].Answer)}
	for _, p := range op.Parameters {
		if p.Ref == "" {
			m.Own = append(m.Own, p)
		} else if p.Ref == parameterRefs+chain.PageLimit {
			m.Paged = true
		}
	}
	if op.RequestBody != nil {
		m.Body = schemaName(op.RequestBody.Content[web.JSON].Schema)
	}
	content := op.Responses["200"].Content[web.JSON]
	if content == nil { // a stream
		content = op.Responses["200"].Content[stream.EventType]
	}
	if content.Example == nil {
		m.Answer = ""
	}
	m.Members = d.answerMembers(content.Schema)
	for _, code := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[code]
		m.Statuses = append(m.Statuses, manualStatus{code, r.Description, r.Ref != ""})
	}
	return m
}

// answerMembers are the members of msg; of a body that is a schema, that alone.
func (d *description) answerMembers(body *huma.Schema) []manualMember {
	msg := body.Properties["msg"]
	switch {
	case msg == nil:
		return []manualMember{{Name: "body", Type: typeName(body), Schema: schemaName(body)}}
	case msg.Type == huma.TypeObject:
		return members("msg", msg)
	default:
		return []manualMember{{Name: "msg", Type: typeName(msg), Text: msg.Description, Schema: schemaName(msg)}}
	}
}

// command is a line for a shell that sends the operation's example.
func (d *description) command(op *huma.Operation) string {
	e := d.examples[op.OperationID]
	key := ""
	if op.Security != nil {
		key = " \\\n  -H '" + web.APIKeyHeader + ": <API_KEY>'"
	}
	if op.RequestBody != nil {
		return "curl '" + somewhere + op.Path + "'" + key + " \\\n  -H 'Content-Type: application/json' \\\n  -d '" + indented(e.Request) + "'"
	}
	if op.Path == stream.LivePath {
		return "curl '" + somewhere + op.Path + "?path=/staking/pool&stream.blocks=true' -N" + key
	}
	return "curl '" + somewhere + d.target(op) + "'" + key
}

// target is the path and query of the operation's example.
func (d *description) target(op *huma.Operation) string {
	if u, err := d.examples[op.OperationID].target(); err == nil && op.RequestBody == nil {
		return u.String()
	}
	return op.Path
}
