package chain

import (
	"fmt"
	"strings"
)

// A Pattern is the path of a row, compiled.
type Pattern []Segment

// A Segment is one piece of a path, between two slashes.
type Segment struct {
	Literal string // "" for a variable
	Name    string // of the variable
	Kind    string // as the row says it behind a colon; "" where the name says it
	Rest    bool   // takes all that follows
}

// ParsePattern reads a pattern as [Row] has it.
func ParsePattern(text string) (p Pattern, err error) {
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
func parseSegment(part string) (s Segment, ok bool) {
	word, isVar := strings.CutPrefix(part, "{")
	if !isVar {
		return Segment{Literal: part}, part != ""
	}
	word, closed := strings.CutSuffix(word, "}")
	before, kind, _ := strings.Cut(word, ":")
	name, rest := strings.CutSuffix(before, "=**")
	return Segment{Name: name, Kind: kind, Rest: rest}, closed && name != "" && !strings.ContainsAny(name, "{}=*")
}

// matches compares the segments of a decoded path. As on the node a variable may be empty.
func (p Pattern) matches(parts []string) bool {
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
func (p Pattern) beginning(depth int) (text string) {
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

// MaxParts bounds the segments of the paths for which an Index takes no memory.
const MaxParts = 24

// Split appends the segments of a path.
func Split(parts []string, path string) []string {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		parts = append(parts, part)
	}
	return parts
}

// An Index finds the row of a path. The first that fits is its row.
type Index struct {
	patterns    []Pattern
	depth       int              // so many segments choose the rows that are compared
	byBeginning map[string][]int // the places of what may fit, by these segments
	general     []int            // of what may fit any other path
}

// NewIndex makes an index, in which so many first segments of a path tell most rows apart.
func NewIndex(depth int, patterns []Pattern) *Index {
	x := &Index{patterns: patterns, depth: depth, byBeginning: map[string][]int{"": nil}}
	for _, p := range patterns {
		x.byBeginning[p.beginning(depth)] = nil
	}
	for text := range x.byBeginning {
		for place, p := range patterns {
			if own := p.beginning(depth); own == text || own == "" {
				x.byBeginning[text] = append(x.byBeginning[text], place)
			}
		}
	}
	x.general = x.byBeginning[""]
	return x
}

// Find is the place of the row of a path, which has been cut into its segments.
func (x *Index) Find(path string, parts []string) (place int, ok bool) {
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
		if x.patterns[place].matches(parts) {
			return place, true
		}
	}
	return 0, false
}
