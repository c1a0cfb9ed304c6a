package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tipcache/tipcache/proxy/web"
)

// fileReader reads a YAML file and remembers the line of each value.
type fileReader struct {
	*loader
	name string
	open map[*yaml.Node]bool // sections being read, to find aliases that contain themselves
}

const maxFile = 64 << 20

// readFile is os.ReadFile for a file of settings. It refuses a long file before that fills the memory.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = &os.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is longer than %d MiB, too long for settings", maxFile>>20)}
	}
	return text, err
}

// file reads a YAML file. It returns an error if the file cannot be read or is not YAML. Other
// problems are collected.
func (l *loader) file(path string) error {
	text, err := readFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, errors.Unwrap(err))
	}
	r := &fileReader{loader: l, name: filepath.Base(path), open: map[*yaml.Node]bool{}}
	var document, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return r.malformed(string(text), err)
	}
	switch err := documents.Decode(&second); {
	case err == nil:
		return fmt.Errorf("%s: a second document begins here: write all settings in one", r.at(&second))
	case !errors.Is(err, io.EOF):
		return r.malformed(string(text), err)
	}
	if len(document.Content) > 0 {
		r.read(document.Content[0], "", reflect.ValueOf(&l.cfg).Elem())
	}
	return nil
}

// malformed returns the error of a text that is not YAML. It names tabs in an indentation, because
// they look like spaces, but no anchor, which may be a secret without quotes.
func (r *fileReader) malformed(text string, err error) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
			return fmt.Errorf("%s:%d: indented with a tab: YAML takes spaces only", r.name, number)
		}
	}
	if _, anchor, ok := strings.Cut(err.Error(), "unknown anchor '"); ok {
		before, _, _ := strings.Cut(text, "*"+strings.TrimSuffix(anchor, "' referenced"))
		return fmt.Errorf("%s:%d: no such anchor: quote a value that begins with *", r.name, 1+strings.Count(before, "\n"))
	}
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if at, ok := strings.CutPrefix(text, "line "); ok {
		return errors.New(r.name + ":" + at)
	}
	if strings.HasPrefix(text, "did not find") || strings.HasPrefix(text, "found ") {
		return errors.New(r.name + ":1: " + text) // the parser names no line for the first one
	}
	return errors.New(r.name + ": " + text)
}

// read reads the value of a path into a field of Config: a section (a struct or a map of structs) or
// a setting. into is the zero Value if the path names no field.
func (r *fileReader) read(n *yaml.Node, path string, into reflect.Value) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.places[path] = r.at(n)
	unknown, section := !into.IsValid(), into.Kind() == reflect.Struct || into.Kind() == reflect.Map
	switch {
	case r.open[n]:
		r.problem(n, path, "contains itself")
	case n.Kind == yaml.MappingNode && len(n.Content) > 0 && (section || unknown):
		r.open[n] = true
		r.section(n, path, into)
		delete(r.open, n)
	case unknown:
		r.problem(n, path, noSuchSetting(path, settingsNear(path)))
	case isSecret(path) && into.Interface() == "" && isBlank(n):
		r.values[path] = errors.New(`no value: quote a value that begins with !, & or #, or write "" for none`)
	case n.Tag == "!!null", n.Kind == yaml.MappingNode && section: // empty
	case isListOfSections(into):
		r.list(n, path, into)
	case path == "":
		r.problem(n, "", "settings are written as NAME: VALUE")
	case section:
		r.problem(n, path, "a section is expected here, not a value")
	case n.Kind == yaml.MappingNode:
		r.problem(n, path, "a value is expected here, not a section")
	case n.Kind == yaml.ScalarNode:
		r.set(path, r.at(n), into, []string{n.Value})
	case into.Kind() == reflect.Slice:
		r.set(path, r.at(n), into, r.items(n, path))
	default:
		r.values[path] = errors.New("one value is expected, not a list")
	}
}

// isBlank reports whether a node is a scalar without text and quotes. The text after !, & or # is no value.
func isBlank(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0
}

// isSecret reports whether a path is a secret that is no list. A setting without its secret would protect nothing.
func isSecret(path string) bool {
	return slices.ContainsFunc(Keys(), func(k Key) bool { return k.Path == path && k.Secret && !k.List })
}

func (r *fileReader) section(n *yaml.Node, path string, into reflect.Value) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if seen[name.Value] {
			r.problem(name, under(path, name.Value), "set twice")
		}
		seen[name.Value] = true
		r.read(value, under(path, name.Value), member(into, name.Value))
		r.places[under(path, name.Value)] = r.at(name)
	}
}

func (r *fileReader) list(n *yaml.Node, path string, into reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		r.problem(n, path, "a list of sections is expected here")
		return
	}
	r.open[n] = true
	into.Set(reflect.MakeSlice(into.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		r.read(item, fmt.Sprintf("%s[%d]", path, i), into.Index(i))
	}
	delete(r.open, n)
}

func (r *fileReader) items(n *yaml.Node, path string) (texts []string) {
	for i, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		r.places[at] = r.at(item)
		if item.Kind != yaml.ScalarNode {
			r.problem(item, at, "a single value is expected here")
		}
		texts = append(texts, item.Value)
	}
	return texts
}

// settingsNear returns the paths of all settings, including the settings of the route that path names.
func settingsNear(path string) (paths []string) {
	route, _, _ := strings.Cut(strings.TrimPrefix(path, "routes."), ".")
	for _, k := range Keys() {
		paths = append(paths, k.Path)
		if field, ok := strings.CutPrefix(k.Path, "classes.live."); ok {
			paths = append(paths, "routes."+route+"."+field)
		}
	}
	return paths
}

// removed says what replaces settings that earlier builds had, by path and variable.
var removed = map[string]string{
	"audit":                "was removed: tipcache no longer reads responses twice",
	"audit.share":          "was removed: tipcache no longer reads responses twice",
	"TIPCACHE_AUDIT_SHARE": "was removed: tipcache no longer reads responses twice",
}

// noSuchSetting returns the problem with a path or variable that names no setting. It suggests one of names, preferably those
// that end in it, because sections are easily forgotten.
func noSuchSetting(name string, names []string) string {
	if text, ok := removed[name]; ok {
		return text
	}
	if slices.Contains(names, name) { // written in one line, with its dots
		sections := strings.Split(name, ".")
		return "YAML does not nest names by dots: write " + strings.Join(sections, ": {") + ": VALUE" + strings.Repeat("}", len(sections)-1)
	}
	last := strings.TrimPrefix(name, envPrefix)
	var longer []string
	for _, n := range names {
		singular := strings.TrimRight(n, "sS") // as in flags
		if hasLast(n, last) || hasLast(singular, last) {
			longer = append(longer, n)
		}
	}
	if len(longer) > 0 {
		return "no such setting; did you mean " + strings.Join(longer, " or ") + "?"
	}
	return "no such setting" + web.DidYouMean(name, names)
}

// hasLast reports whether a path or variable ends in a name that follows a section.
func hasLast(path, name string) bool {
	return strings.HasSuffix(path, "."+name) || strings.HasSuffix(path, "_"+name)
}

func (r *fileReader) problem(n *yaml.Node, path, text string) {
	r.problems = append(r.problems, Problem{Place: r.at(n), Key: path, Text: text})
}

func (r *fileReader) at(n *yaml.Node) string { return r.name + ":" + strconv.Itoa(n.Line) }

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
