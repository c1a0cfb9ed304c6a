// Command schemas writes the response messages of the query services of the Cosmos SDK, in the form that proxy/docs
// embeds:
//
//	go run -tags nomsgpack ./cmd/schemas > proxy/docs/sdk_messages.json
//
// It reads the .proto files of the modules' releases, which it downloads as Go modules. The gateway of a node
// writes every field of a message, except an unset one of a oneof, and null for an unset message.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tipcache/tipcache/proxy/cosmos"
)

// releases have the .proto files. Each line is a set of modules that work together. A method is described by the
// first line that has it. A field that is missing from the message in another line may be absent.
var releases = [][]string{
	{"github.com/cosmos/cosmos-sdk@v0.54.4", "github.com/cosmos/ibc-go/v10@v10.7.0", "github.com/CosmWasm/wasmd@v0.61.14"},
	{"github.com/cosmos/cosmos-sdk@v0.53.4", "github.com/cosmos/ibc-go/v10@v10.3.0", "github.com/CosmWasm/wasmd@v0.60.8"},
	{"github.com/cosmos/cosmos-sdk@v0.50.15", "github.com/cosmos/ibc-go/v8@v8.8.0", "github.com/CosmWasm/wasmd@v0.54.9"},
}

// irregular are messages whose JSON form in the SDK differs from their fields.
var irregular = []string{"cosmos.staking.v1beta1.RedelegationResponse"}

func main() {
	log.SetFlags(0)
	all := output{Methods: map[string]string{}, Messages: map[string]map[string]string{}, Enums: map[string][]string{}}
	var lines []*protos
	for _, modules := range releases {
		line := &protos{messages: map[string]*message{}, enums: map[string][]string{}, methods: map[string]string{}}
		for _, module := range modules {
			if err := line.addModule(module); err != nil {
				log.Fatal(err)
			}
		}
		lines = append(lines, line)
	}
	for _, row := range cosmos.Described(nil) {
		if row.Method == "" {
			continue
		}
		i := slices.IndexFunc(lines, func(p *protos) bool { return p.methods[row.Method] != "" })
		if i < 0 {
			log.Fatalf("no release has %s", row.Method)
		}
		all.Methods[row.Method] = lines[i].methods[row.Method]
		lines[i].collect(&all, all.Methods[row.Method])
	}
	for _, line := range lines {
		line.markAbsent(all)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "\t")
	if err := out.Encode(all); err != nil {
		log.Fatal(err)
	}
}

// output is the written file. A field's type is the name of a message or an enum, string, integer, number, boolean, bytes, time,
// duration, any (a google.protobuf.Any) or json. "[]" before it is a list, "|null" and "|absent" after it mean that the field
// may be null or absent.
type output struct {
	Methods  map[string]string // response messages by method
	Messages map[string]map[string]string
	Enums    map[string][]string
}

// protos are the parsed files of some releases.
type protos struct {
	messages map[string]*message
	enums    map[string][]string
	methods  map[string]string
}

type message struct {
	name string
	*descriptorpb.DescriptorProto
}

// addModule parses the .proto files of a Go module.
func (p *protos) addModule(version string) error {
	text, err := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", version).Output()
	if err != nil {
		return fmt.Errorf("download %s: %w", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(module.Dir, "proto"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".proto" {
			return err
		}
		return p.addFile(path)
	})
}

// addFile parses one file. It does not resolve imports and options, which needs more modules.
func (p *protos) addFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	problems := reporter.NewHandler(nil)
	tree, err := parser.Parse(path, file, problems)
	if err != nil {
		return err
	}
	parsed, err := parser.ResultFromAST(tree, true, problems)
	if err != nil {
		return err
	}
	d := parsed.FileDescriptorProto()
	p.add("."+d.GetPackage(), d.GetMessageType(), d.GetEnumType())
	for _, service := range d.GetService() {
		for _, m := range service.GetMethod() {
			method := "/" + d.GetPackage() + "." + service.GetName() + "/" + m.GetName()
			p.methods[method] = p.resolve("."+d.GetPackage(), m.GetOutputType())
		}
	}
	return nil
}

// add adds the messages and enums of a scope, which begins with a dot.
func (p *protos) add(scope string, messages []*descriptorpb.DescriptorProto, enums []*descriptorpb.EnumDescriptorProto) {
	for _, m := range messages {
		name := scope + "." + m.GetName()
		p.messages[name[1:]] = &message{name, m}
		p.add(name, m.GetNestedType(), m.GetEnumType())
	}
	for _, e := range enums {
		var values []string
		for _, v := range e.GetValue() {
			values = append(values, v.GetName())
		}
		p.enums[scope[1:]+"."+e.GetName()] = values
	}
}

// resolve returns the full name of a type from its name in a scope.
func (p *protos) resolve(scope, name string) string {
	if full, ok := strings.CutPrefix(name, "."); ok {
		return full
	}
	for ; scope != ""; scope = scope[:strings.LastIndexByte(scope, '.')] {
		full := (scope + "." + name)[1:]
		if p.messages[full] != nil || p.enums[full] != nil {
			return full
		}
	}
	return name
}

// collect adds a message and the messages of its fields.
func (p *protos) collect(all *output, name string) {
	m := p.messages[name]
	if all.Messages[name] != nil || m == nil {
		return
	}
	fields := map[string]string{}
	all.Messages[name] = fields
	for _, f := range m.GetField() {
		typ := p.typeOf(m, f)
		if values := p.enums[typ]; values != nil {
			all.Enums[typ] = values
		}
		p.collect(all, typ)
		fields[f.GetName()] = typ
		switch repeated := f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED; {
		case repeated:
			fields[f.GetName()] = "[]" + typ
		case f.OneofIndex != nil:
			fields[f.GetName()] += "|absent"
		case f.Type == nil && p.enums[typ] == nil && option(f, "nullable") != "false":
			fields[f.GetName()] += "|null"
		}
	}
}

// markAbsent marks the fields that messages of these files do not have.
func (p *protos) markAbsent(all output) {
	for name, fields := range all.Messages {
		m := p.messages[name]
		for field, typ := range fields {
			absent := m != nil && !slices.ContainsFunc(m.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool { return f.GetName() == field })
			if absent && !strings.HasSuffix(typ, "|absent") {
				fields[field] += "|absent"
			}
		}
	}
}

// wellKnown maps messages of google.protobuf to types of the output.
var wellKnown = map[string]string{"Any": "any", "Timestamp": "time", "Duration": "duration"}

func (p *protos) typeOf(m *message, f *descriptorpb.FieldDescriptorProto) string {
	if f.Type == nil { // a message or an enum
		full := p.resolve(m.name, f.GetTypeName())
		if name, ok := strings.CutPrefix(full, "google.protobuf."); ok {
			return wellKnown[name]
		}
		if slices.Contains(irregular, full) {
			return "json"
		}
		return full
	}
	switch f.GetType() {
	case descriptorpb.FieldDescriptorProto_TYPE_BOOL:
		return "boolean"
	case descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, descriptorpb.FieldDescriptorProto_TYPE_FLOAT:
		return "number"
	case descriptorpb.FieldDescriptorProto_TYPE_INT32, descriptorpb.FieldDescriptorProto_TYPE_UINT32, descriptorpb.FieldDescriptorProto_TYPE_SINT32:
		return "integer"
	case descriptorpb.FieldDescriptorProto_TYPE_BYTES:
		if option(f, "casttype") == "RawContractMessage" {
			return "json"
		}
		return "bytes"
	default: // also integers of 64 bits
		return "string"
	}
}

// option returns the value of the field's option whose name ends in the given part, or "".
func option(f *descriptorpb.FieldDescriptorProto, name string) string {
	for _, o := range f.GetOptions().GetUninterpretedOption() {
		if parts := o.GetName(); strings.HasSuffix(parts[len(parts)-1].GetNamePart(), "."+name) {
			return o.GetIdentifierValue() + string(o.GetStringValue())
		}
	}
	return ""
}
