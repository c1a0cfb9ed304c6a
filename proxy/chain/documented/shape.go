package documented

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

var errGrows = errors.New("the documented shape is many times as long")

// longest bounds the size of the shape of a text, in bytes: four times its size, and room
// for the few that are short. An answer that grows by more is made of nothing but
// what it leaves out.
func longest(source int) int { return 4*source + 16<<10 }

// A Shaped answer is one in its documented shape.
type Shaped struct {
	Body    []byte
	NextKey string // the page key of the next page where the shape has no place for it
	From    int    // where Body has it else, with its quotes
	To      int    // behind it; 0 for nowhere
}

// Shape makes a documented answer of the raw one, which is valid JSON and
// does not change any more. With no schema of msg there is
// no documented shape, and the node's stays.
func Shape(raw []byte, want *Schema) (shaped Shaped, err error) {
	if want == nil {
		return Shaped{Body: raw}, nil
	}
	src := unsafe.String(unsafe.SliceData(raw), len(raw)) //nolint:gosec // which is only read
	at := find(src, "msg")
	if at < 0 || src[at] != '{' {
		return shaped, fmt.Errorf("msg: want an object, have %.40s", gjson.Get(src, "msg").Raw)
	}
	e := &splicer{src: src, out: make([]byte, 0, len(src)+512)}
	if want.edit != nil {
		shaped.NextKey, err = want.edit(e, gjson.Get(src, "msg"))
	} else {
		_, err = want.normalize(e, at)
	}
	if err != nil {
		return shaped, fmt.Errorf("msg: %w", err)
	}
	if e.grows {
		return shaped, errGrows
	}
	shaped.Body, shaped.From, shaped.To = e.bytes(), e.keyFrom, e.keyTo
	return shaped, nil
}

// normalize edits the value at an index into the schema, and gives the index behind it. What the
// schema does not speak of stays.
func (s *Schema) normalize(e *splicer, at int) (end int, err error) {
	switch c := e.src[at]; {
	case s.open:
		return skip(e.src, at), nil
	case c == 'n' && s.zero != "":
		end = literal(e.src, at)
		e.replace(at, end, s.zero)
		return end, nil
	case s.Kind == ObjectKind && c == '{':
		return s.normalizeMembers(e, at)
	case s.Kind == ListKind && c == '[':
		return s.normalizeItems(e, at)
	case s.Kind == StringKind && c == '"', s.Kind == IntegerKind && (c == '-' || '0' <= c && c <= '9'), s.Kind == BooleanKind && (c == 't' || c == 'f'):
		return skip(e.src, at), nil
	}
	return at, fmt.Errorf("want type %s, have %.40s", s.Kind, e.src[at:skip(e.src, at)])
}

func (s *Schema) normalizeItems(e *splicer, at int) (end int, err error) {
	for at = blanks(e.src, at+1); e.src[at] != ']'; at = next(e.src, at) {
		if at, err = s.Items.normalize(e, at); err != nil {
			return at, err
		}
	}
	return at + 1, nil
}

func (s *Schema) normalizeMembers(e *splicer, at int) (end int, err error) {
	var seen uint32
	at = blanks(e.src, at+1)
	empty := e.src[at] == '}'
	for ; e.src[at] != '}'; at = next(e.src, at) {
		var name string
		name, at = member(e.src, at)
		if s == paginationSchema && name == "next_key" && e.src[at] == '"' && e.keyTo == 0 {
			e.keyFrom, e.keyTo = e.moved(at), e.moved(quoted(e.src, at))
		}
		if i := s.index(name); i >= 0 && seen&(1<<i) == 0 {
			seen |= 1 << i
			at, err = s.Members[i].normalize(e, at)
		} else {
			at = skip(e.src, at)
		}
		if err != nil {
			return at, err
		}
	}
	missing, err := s.missing(seen, empty)
	if missing != "" {
		e.replace(at, at, missing)
	}
	return at + 1, err
}

// normalize edits the member's value, where there is one.
func (f *Field) normalize(e *splicer, at int) (end int, err error) {
	switch null := e.src[at] == 'n'; {
	case f.Presence == Extra, f.Presence == Optional && null:
		return skip(e.src, at), nil
	case f.Presence == Mandatory && null:
		return at, fmt.Errorf("%s is null", f.Name)
	}
	if end, err = f.Schema.normalize(e, at); err != nil {
		return end, fmt.Errorf("%s: %w", f.Name, err)
	}
	return end, nil
}

// missing renders the required members that are not among those seen.
func (s *Schema) missing(seen uint32, empty bool) (string, error) {
	var b strings.Builder
	for i, m := range s.Members {
		if seen&(1<<i) != 0 || m.Presence == Optional || m.Presence == Extra {
			continue
		}
		if m.Presence == Mandatory {
			return "", fmt.Errorf("%s is missing", m.Name)
		}
		if !empty {
			b.WriteByte(',')
		}
		empty = false
		b.WriteString(`"` + m.Name + `":` + m.zero)
	}
	return b.String(), nil
}

func (s *Schema) index(name string) int {
	for i := range s.Members {
		if s.Members[i].Name == name {
			return i
		}
	}
	return -1
}

// A splicer edits a text in place of re-encoding it: whatever is not replaced
// leaves byte for byte as it came. Edits are made from left to right.
type splicer struct {
	src  string
	out  []byte
	done int // how much of src is in out, or was replaced

	keyFrom, keyTo int // of a Shaped

	grows bool // out became longer than the result may be, and is not added to any more
}

// replace puts text where src[from:to] was; from == to inserts.
func (s *splicer) replace(from, to int, text string) {
	if len(s.out) > longest(len(s.src)) {
		s.grows = true
		return
	}
	s.out = append(append(s.out, s.src[s.done:from]...), text...)
	s.done = to
}

// moved is where what is at an index of src, and follows all edits so far, is in the end.
func (s *splicer) moved(at int) int { return len(s.out) + at - s.done }

// bytes ends the editing.
func (s *splicer) bytes() []byte {
	return append(s.out, s.src[s.done:]...)
}
