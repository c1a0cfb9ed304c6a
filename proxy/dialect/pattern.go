package dialect

import (
	"fmt"
	"strings"
)

// A pattern is the path of a row, compiled.
type pattern []segment

// A segment is one piece of a path, between two slashes.
type segment struct {
	Literal string // "" for a variable
	Word    string // of the variable: name, or name:kind
	Rest    bool   // takes all that follows
}

// parsePattern reads a pattern as [Row] has it.
func parsePattern(text string) (p pattern, err error) {
	for part := range strings.SplitSeq(text[1:], "/") {
		if len(p) > 0 && p[len(p)-1].Rest {
			return nil, fmt.Errorf("%s: nothing can follow {...=**}", text)
		}
		s, ok := parseSegment(part)
		if !ok {
			return nil, fmt.Errorf("%s: %q is neither a word nor a variable", text, part)
		}
		p = append(p, s)
	}
	return p, nil
}

// parseSegment reads a literal, or {name}, {name:kind}, {name=**} or {name=**:kind}.
func parseSegment(part string) (s segment, ok bool) {
	word, isVar := strings.CutPrefix(part, "{")
	if !isVar {
		return segment{Literal: part}, part != ""
	}
	word, closed := strings.CutSuffix(word, "}")
	before, kind, _ := strings.Cut(word, ":")
	name, rest := strings.CutSuffix(before, "=**")
	return segment{Word: name + ":" + kind, Rest: rest}, closed && name != "" && !strings.ContainsAny(name, "{}=*")
}

// matches compares the segments of a decoded path. As on the node a variable may be empty.
func (p pattern) matches(parts []string) bool {
	for i, s := range p {
		switch {
		case i >= len(parts):
			return false
		case s.Rest:
			return true
		case s.Literal != "" && s.Literal != parts[i]:
			return false
		}
	}
	return len(p) == len(parts)
}

// beginning is what the first segments name, "" if they name less.
func (p pattern) beginning(depth int) (text string) {
	if len(p) < depth {
		return ""
	}
	for _, s := range p[:depth] {
		if s.Literal == "" {
			return ""
		}
		text += "/" + s.Literal
	}
	return text
}

// maxParts bounds the segments of the paths that are read without taking memory.
const maxParts = 24

// split appends the segments of a path.
func split(parts []string, path string) []string {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		parts = append(parts, part)
	}
	return parts
}

// An Index finds the row of a path. The first that fits is its row.
type Index struct {
	readers     []*Reader
	depth       int              // so many segments choose the rows that are compared
	byBeginning map[string][]int // the places of what may fit, by these segments
	general     []int            // of what may fit any other path
}

// NewIndex makes an index, in which so many first segments of a path tell most rows apart.
func NewIndex(depth int, readers []*Reader) *Index {
	x := &Index{readers: readers, depth: depth, byBeginning: map[string][]int{"": nil}}
	for _, rd := range readers {
		x.byBeginning[rd.pattern.beginning(depth)] = nil
	}
	for text := range x.byBeginning {
		for place, rd := range readers {
			if own := rd.pattern.beginning(depth); own == text || own == "" {
				x.byBeginning[text] = append(x.byBeginning[text], place)
			}
		}
	}
	x.general = x.byBeginning[""]
	return x
}

// Find is the place of the row of a decoded path.
func (x *Index) Find(path string) (place int, ok bool) {
	var room [maxParts]string
	parts := split(room[:0], path)
	rows := x.general
	if len(parts) >= x.depth {
		end := x.depth
		for _, part := range parts[:x.depth] {
			end += len(part)
		}
		if found, ok := x.byBeginning[path[:end]]; ok {
			rows = found
		}
	}
	for _, place := range rows {
		if x.readers[place].pattern.matches(parts) {
			return place, true
		}
	}
	return 0, false
}
