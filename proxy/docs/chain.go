package docs

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/chain/documented"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// addChain adds an operation for every row of the table.
func (d *description) addChain() error {
	schemas := d.Components.Schemas.Map()
	schemas["Answer"] = envelope(&huma.Schema{Type: huma.TypeObject, Description: "What was asked for, in the node's own shape."})
	schemas["Refusal"] = refusal(d.o.Chain.Shape)
	d.addRefusals()
	for _, rt := range chain.Table() {
		values, err := d.examples[rt.Name].values(rt)
		if err != nil {
			return fmt.Errorf("%s: %w", rt.Name, err)
		}
		d.add(&huma.Operation{
			Method: http.MethodGet, Path: openPath(rt.Pattern), OperationID: rt.Name, Tags: []string{module(rt.Pattern)},
			Summary: routeTexts[rt.Name].summary, Description: routeTexts[rt.Name].doc,
			Parameters: d.parameters(rt, values), Responses: d.responses(d.chainAnswer(rt)), Security: d.security(d.o.Chain.Auth),
		})
	}
	return nil
}

// module is the module of the chain that a path belongs to.
func module(pattern string) string {
	name, _, _ := strings.Cut(pattern[1:], "/")
	return name
}

// parameters are those of the row, then what all rows take.
func (d *description) parameters(rt chain.Route, examples map[string]string) []*huma.Param {
	var all []*huma.Param
	for _, m := range variable.FindAllStringSubmatch(rt.Pattern, -1) {
		all = append(all, d.parameter(m[1], "path", examples))
	}
	for _, name := range strings.Fields(rt.Query) {
		if name == chain.Pagination {
			all = append(all, referred(chain.PageNames[:]...)...)
		} else {
			all = append(all, d.parameter(name, "query", examples))
		}
	}
	return append(all, referred(chainHeaders(d.o)...)...)
}

// referred are parameters that operations share.
func referred(names ...string) []*huma.Param {
	all := make([]*huma.Param, len(names))
	for i, name := range names {
		all[i] = &huma.Param{Ref: parameterRefs + name}
	}
	return all
}

func (d *description) parameter(name, in string, examples map[string]string) *huma.Param {
	text := parameterTexts[name]
	required := in == "path" || name == "denom" // without which the node refuses
	p := &huma.Param{Name: name, In: in, Required: required, Description: text.doc, Schema: &text.schema}
	if d.o.Chain.Shape == chain.Node {
		p.Schema = &huma.Schema{Type: huma.TypeString} // the node is the judge
	}
	if value, ok := examples[name]; ok {
		p.Example = value
	}
	return p
}

// responses are the answer of a row and the refusals all rows share.
func (d *description) responses(answer *huma.Response) map[string]*huma.Response {
	all := map[string]*huma.Response{"200": answer}
	for _, r := range d.refusals() {
		all[strconv.Itoa(r.status)] = &huma.Response{Ref: responseRefs + r.component()}
	}
	return all
}

func (d *description) chainAnswer(rt chain.Route) *huma.Response {
	shaped := rt.Msg != nil && d.o.Chain.Shape == chain.Documented
	content := &huma.MediaType{Schema: &huma.Schema{Ref: schemaRefs + "Answer"}}
	if shaped {
		content.Schema = envelope(d.schema(rt.Msg))
	}
	if answer := d.examples[rt.Name].Answer; answer != nil && (shaped || rt.Msg == nil) {
		content.Example = answer
	}
	headers := []string{web.HeightHeader, etagHeader}
	if shaped && rt.Msg.Kind == documented.ListKind { // the list is all there is, and has no place for the next page key
		headers = append(headers, linkHeader)
	}
	return &huma.Response{
		Description: "The answer, and the block it holds at.",
		Headers:     d.headersOf(headers...),
		Content:     map[string]*huma.MediaType{web.JSON: content, stream.EventType: eventContent()},
	}
}

// envelope is what every answer is wrapped in.
func envelope(msg *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"code", "msg", "error"},
		Properties: map[string]*huma.Schema{
			"code":  {Type: huma.TypeInteger, Enum: []any{http.StatusOK}, Description: "The HTTP status."},
			"msg":   msg,
			"error": {Type: huma.TypeString, Enum: []any{""}, Description: "Empty: nothing went wrong."},
		},
	}
}

// refusal is the envelope of an answer that says no.
func refusal(shape chain.Shape) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"code", "msg", "error"},
		Properties: map[string]*huma.Schema{
			"code":  {Type: huma.TypeInteger, Format: "int32", Description: "The HTTP status."},
			"msg":   {Type: huma.TypeObject, Nullable: shape == chain.Node, Description: "Nothing."},
			"error": {Type: huma.TypeString, Description: "What is wrong; the node's own words where it was the node that refused."},
		},
	}
}
