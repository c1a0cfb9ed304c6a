package docs

import (
	_ "embed" // the parts
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.yaml.in/yaml/v3"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/stream"
)

// parts are the parts of the document that no row of a table implies.
type parts struct {
	About      map[string][]string // paragraphs
	Tags       []*huma.Tag
	Classes    map[blocks.Class]string
	Parameters map[string]*huma.Param
	Headers    map[string]*huma.Header
	Statuses   []refusalText // of the chain API
	Problems   []refusalText // of the collection listing
	Operations map[string]*huma.Operation

	RowParameters map[string]*huma.Param `yaml:"rowParameters"` // of Story
}

// A refusalText describes an error status.
type refusalText struct {
	Status  int
	Doc     string
	Error   string   // example; "" for a status without a body
	Headers []string // headers that only this status has
}

//go:embed openapi.yaml
var partsText string

// loadParts decodes openapi.yaml.
func loadParts() (p parts) {
	limits := strings.NewReplacer(
		"{live paths}", strconv.Itoa(stream.MaxLivePaths), "{batch paths}", strconv.Itoa(blocks.MaxBatchPaths), "{batch MiB}", strconv.Itoa(blocks.MaxBatchBytes>>20))
	must(yaml.Unmarshal([]byte(limits.Replace(partsText)), &p))
	for name, parameter := range p.Parameters {
		parameter.Name = name
	}
	return p
}

// about returns the description of the document.
func (d *description) about() string {
	subject := string(d.o.Story.Shape)
	if d.o.Cosmos != nil {
		subject = "cosmos"
	}
	paragraphs := d.parts.About[subject]
	if d.o.Cosmos == nil && !d.o.Story.RefuseUnknown {
		paragraphs = append(paragraphs, d.parts.About["unknown"]...)
	}
	paragraphs = append(paragraphs, d.parts.About["all"]...)
	if d.o.Collections != nil {
		paragraphs = append(paragraphs, d.parts.About["listing"]...)
	}
	return strings.Join(paragraphs, "\n\n")
}

// operation returns an operation of openapi.yaml at a path. keyed says that it requires an API key.
func (d *description) operation(id, path string, keyed bool) *huma.Operation {
	op := d.parts.Operations[id]
	op.Method, op.Path, op.OperationID, op.Security = http.MethodGet, path, id, d.security(keyed)
	return op
}
