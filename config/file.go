package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileReader collects what a YAML file sets, with the line of each value.
type fileReader struct {
	name     string
	settings settings
	places   places
	problems []error
	open     map[*yaml.Node]bool // sections being read: an alias may name one that it stands in
}

// fromFile reads a YAML file. An error that is no Problem means that it is not
// YAML at all.
func fromFile(path string, into settings, where places) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, errors.Unwrap(err))
	}
	r := &fileReader{name: filepath.Base(path), settings: into, places: where, open: map[*yaml.Node]bool{}}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		if at, ok := strings.CutPrefix(text, "line "); ok {
			return errors.New(r.name + ":" + at)
		}
		return errors.New(r.name + ": " + text)
	}
	if len(document.Content) > 0 {
		r.read(document.Content[0], "")
	}
	return errors.Join(r.problems...)
}

// read reads the value of a path: a section, or a setting.
func (r *fileReader) read(n *yaml.Node, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.places[path] = r.at(n)
	switch {
	case r.open[n]:
		r.problem(n, path, "contains itself")
	case n.Kind == yaml.MappingNode && !isLeaf(path):
		r.open[n] = true
		r.section(n, path)
		delete(r.open, n)
	case n.Tag == "!!null": // nothing is said
	case !isLeaf(path):
		r.unknown(n, path)
	case n.Kind == yaml.ScalarNode:
		r.settings[path] = setting{texts: []string{n.Value}}
	case n.Kind == yaml.SequenceNode:
		r.list(n, path)
	default:
		r.problem(n, path, "a value is expected here, not a section")
	}
}

func (r *fileReader) section(n *yaml.Node, path string) {
	seen := map[string]bool{}
	r.merge(n, path)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Tag == mergeTag {
			continue
		}
		if seen[name.Value] {
			r.problem(name, under(path, name.Value), "set twice")
		}
		seen[name.Value] = true
		r.read(value, under(path, name.Value))
		r.places[under(path, name.Value)] = r.at(name)
	}
}

const mergeTag = "!!merge"

// merge reads the sections that << names: what is said beside it goes before
// them.
func (r *fileReader) merge(section *yaml.Node, path string) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		from := section.Content[i+1]
		switch {
		case section.Content[i].Tag != mergeTag:
		case from.Kind == yaml.SequenceNode:
			for _, each := range slices.Backward(from.Content) {
				r.read(each, path)
			}
		default:
			r.read(from, path)
		}
	}
}

func (r *fileReader) list(n *yaml.Node, path string) {
	s := setting{list: true}
	for i, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		r.places[at] = r.at(item)
		if item.Kind != yaml.ScalarNode {
			r.problem(item, at, "a single value is expected here")
		}
		s.texts = append(s.texts, item.Value)
	}
	r.settings[path] = s
}

func (r *fileReader) unknown(n *yaml.Node, path string) {
	if path == "" {
		r.problem(n, "", "settings are written as NAME: VALUE")
		return
	}
	if isSection(path) {
		r.problem(n, path, "a section is expected here, not a value")
		return
	}
	r.problem(n, path, "no such setting"+DidYouMean(path, leavesBeside(path)))
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
