package docs

import (
	"embed"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"text/template"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// A sample is a program that sends a request, for users to copy.
type sample struct {
	Language string // curl, TypeScript, Go or Python
	Name     string // the library to install, or the language
	Source   string
}

// Lead returns the first line of the document's description.
func (m manual) Lead() string {
	lead, _, _ := strings.Cut(m.Info.Description, "\n")
	return lead
}

// Opening returns the operation at the top of the page.
func (m manual) Opening() *huma.Operation { return m.Paths[m.examplePath()].Get }

// OpeningAnswer returns the response to its example.
func (m manual) OpeningAnswer() string {
	answer := m.examples[m.Opening().OperationID].Answer
	if answer == nil {
		answer = m.sdk.Pool
	}
	text := "HTTP/1.1 200 OK\nContent-Type: " + respond.JSON + "\n"
	for _, name := range []string{respond.HeightHeader, cacheStatusHeader, etagHeader} {
		text += fmt.Sprintf("%s: %v\n", name, m.parts.Headers[name].Example)
	}
	return text + "\n" + indented(answer)
}

// Samples returns the programs that send an operation's example.
func (m manual) Samples(op *huma.Operation) []sample {
	request := struct {
		sampleData
		*huma.Operation
		Target, Body string
		Given        []string // as members of a TypeScript object
	}{m.sampleData(), op, m.Target(op), "", nil}
	if op.RequestBody != nil {
		request.Body = indented(m.examples[op.OperationID].Request)
	} else {
		request.Given = m.given(op)
	}
	return []sample{
		{"curl", "curl", program("request.sh", request)}, {"TypeScript", "TypeScript", program("request.ts", request)},
		{"Go", "Go", program("request.go", request)}, {"Python", "Python", program("request.py", request)},
	}
}

// given returns the parameters of an operation's example, as members of an object.
func (m manual) given(op *huma.Operation) (params []string) {
	names, values := m.values(op)
	for _, name := range names {
		literal := "'" + strings.ReplaceAll(values[name], "'", `\'`) + "'"
		for _, p := range op.Parameters {
			if p = m.resolved(p); p.Name == name && p.Schema.Type == huma.TypeInteger {
				literal = values[name]
			}
		}
		params = append(params, "'"+name+"': "+literal)
	}
	return params
}

// resolved returns a parameter of an operation, or the shared one that it refers to.
func (m manual) resolved(p *huma.Param) *huma.Param {
	if name, isShared := strings.CutPrefix(p.Ref, parameterRefs); isShared {
		return m.Components.Parameters[name]
	}
	return p
}

// values returns the parameters of an operation's example, as [parametersOf] does.
func (m manual) values(op *huma.Operation) (names []string, values map[string]string) {
	u, err := url.Parse(m.Target(op))
	if err != nil {
		return nil, nil
	}
	return parametersOf(op.Path, u)
}

// A field is an input of the "try it" form.
type field struct {
	Name, In, Value string
	Values          []any // allowed values; nil means any
	Required        bool
}

// Fields returns the inputs for an operation's path and query, with the values of its example. Headers,
// since, and parameters that may be repeated have none.
func (m manual) Fields(op *huma.Operation) (all []field) {
	_, values := m.values(op)
	for _, p := range op.Parameters {
		if p = m.resolved(p); p.In != "header" && p.Schema.Type != huma.TypeArray && p.Name != web.SinceParameter {
			all = append(all, field{p.Name, p.In, values[p.Name], p.Schema.Enum, p.Required})
		}
	}
	return all
}

// sampleData is what the programs of this server need.
type sampleData struct {
	Server       string
	Pool, Params string // paths that every chain of the dialect has
	SDK          bool
}

func (m manual) sampleData() sampleData {
	return sampleData{somewhere, m.examplePath(), m.otherPath(), m.o.Cosmos != nil}
}

//go:embed programs
var programFiles embed.FS

var programs = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(programFiles, "programs/*.tmpl"))
})

// program returns the program of a template.
func program(name string, data any) string {
	var b strings.Builder
	must(programs().ExecuteTemplate(&b, name+".tmpl", data))
	return strings.TrimSpace(b.String())
}

// Receipt returns a program that reads the state once it includes a transaction of the execution chain, or nil for SDK
// chains.
func (m manual) Receipt() []sample {
	if m.o.Cosmos != nil {
		return nil
	}
	return []sample{{"TypeScript", "TypeScript", program("receipt.ts", m.sampleData())}}
}
