package docs

import (
	_ "embed" // programs
	"fmt"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/stream"
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
func (m manual) Opening() *huma.Operation {
	for _, op := range m.operations {
		if op.Path == m.examplePath() {
			return op
		}
	}
	return m.operations[0]
}

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
	return []sample{{"curl", "curl", m.Command(op)}, {"TypeScript", "TypeScript", m.typeScript(op)}, {"Go", "Go", m.goProgram(op)}, {"Python", "Python", m.python(op)}}
}

// typeScript returns a program for the TypeScript client.
func (m manual) typeScript(op *huma.Operation) string {
	entry, given := "@tipcache/client", ""
	if m.o.Cosmos != nil {
		entry += "/sdk"
	}
	if op.Security != nil {
		given = ", { apiKey: '<API_KEY>' }"
	}
	return "import { Tipcache } from '" + entry + "'\n\nconst chain = new Tipcache('" + somewhere + "'" + given + ")\n" + m.typeScriptCall(op)
}

func (m manual) typeScriptCall(op *huma.Operation) string {
	switch {
	case op.Path == stream.LivePath:
		return "chain.frames(['" + m.examplePath() + "'], ({ height, answers }) => console.log(height, answers))"
	case op.Path == blocks.BatchPath:
		return "const { height, answers } = await chain.batch(['" + m.examplePath() + "', '" + m.otherPath() + "'])\nconsole.log(height, answers)"
	case op.RequestBody != nil:
		return "const { data, pagination } = await chain.collections(" + indented(m.examples[op.OperationID].Request) + ")\nconsole.log(pagination, data)"
	}
	given := ""
	switch params := m.given(op); len(params) {
	case 0:
	case 1:
		given = ", { params: { " + params[0] + " } }"
	default:
		given = ", { params: {\n  " + strings.Join(params, ",\n  ") + ",\n} }"
	}
	return "const { msg, height } = await chain.get('" + op.Path + "'" + given + ")\nconsole.log(height, msg)"
}

// given returns the parameters of an operation's example, as members of an object.
func (m manual) given(op *huma.Operation) (params []string) {
	names, values := m.values(op)
	for _, name := range names {
		literal := "'" + strings.ReplaceAll(values[name], "'", `\'`) + "'"
		for _, p := range op.Parameters {
			if p.Name == name && p.Schema != nil && p.Schema.Type == huma.TypeInteger || p.Ref == parameterRefs+name && m.Components.Parameters[name].Schema.Type == huma.TypeInteger {
				literal = values[name]
			}
		}
		params = append(params, "'"+name+"': "+literal)
	}
	return params
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

// Fields returns the inputs for an operation's path and query, with the values of its example. Parameters that may be
// repeated have none.
func (m manual) Fields(op *huma.Operation) (all []field) {
	_, values := m.values(op)
	for _, p := range op.Parameters {
		name, isShared := strings.CutPrefix(p.Ref, parameterRefs)
		if isShared {
			p = m.Components.Parameters[name]
		}
		if p.In == "header" || p.Schema.Type == huma.TypeArray || name == stream.SinceParameter {
			continue
		}
		all = append(all, field{p.Name, p.In, values[p.Name], p.Schema.Enum, p.Required})
	}
	return all
}

// Program templates. Verbs of requestProgram: imports, method, URL, body, and lines that set headers; of
// receiptProgram: an address and two paths; of the others: an address.
var (
	//go:embed programs/receipt.ts.tmpl
	receiptProgram string
	//go:embed programs/request.go.tmpl
	requestProgram string
	//go:embed programs/comet.go.tmpl
	cometProgram string
	//go:embed programs/grpc.go.tmpl
	grpcProgram string
)

func program(text string, values ...any) string {
	return strings.TrimSpace(fmt.Sprintf(text, values...))
}

// Receipt returns a program that reads the state once it includes a transaction of the execution chain, or nil for SDK
// chains.
func (m manual) Receipt() []sample {
	if m.o.Cosmos != nil {
		return nil
	}
	return []sample{{"TypeScript", "TypeScript", program(receiptProgram, somewhere, m.examplePath(), m.otherPath())}}
}

// goProgram returns a program that needs only the standard library.
func (m manual) goProgram(op *huma.Operation) string {
	body, imports, header := "nil", "", ""
	if op.RequestBody != nil {
		body, imports = "strings.NewReader(`"+indented(m.examples[op.OperationID].Request)+"`)", "\n\t\"strings\""
		header = "\n\trequest.Header.Set(\"Content-Type\", \"" + respond.JSON + "\")"
	}
	if op.Security != nil {
		header += "\n\trequest.Header.Set(\"" + limits.KeyHeader + "\", \"<API_KEY>\")"
	}
	return program(requestProgram, imports, op.Method, somewhere+m.Target(op), body, header)
}

// python returns a program that needs only the standard library.
func (m manual) python(op *huma.Operation) string {
	body, headers, height := "", "", "response.headers['"+respond.HeightHeader+"'], "
	if op.RequestBody != nil {
		height = ""
		body, headers = ", data='''"+indented(m.examples[op.OperationID].Request)+"'''.encode()", "request.add_header('Content-Type', '"+respond.JSON+"')\n"
	}
	if op.Security != nil {
		headers += "request.add_header('" + limits.KeyHeader + "', '<API_KEY>')\n"
	}
	read, imports := "    print("+height+"json.load(response))", "import json\n"
	if op.Path == stream.LivePath {
		read, imports = "    for line in response:\n        print(line.decode(), end='')", ""
	}
	return imports + "from urllib.request import Request, urlopen\n\nrequest = Request('" + somewhere + m.Target(op) + "'" + body + ")\n" + headers +
		"with urlopen(request) as response:\n" + read
}
