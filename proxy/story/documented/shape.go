package documented

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

var errGrows = errors.New("the documented shape would be more than four times as long as the answer")

// longest returns the maximum size of the shape of a text, in bytes. An answer would exceed it only if it omitted almost all
// of its members.
func longest(source int) int { return 4*source + 16<<10 }

// Shaped is an answer in its documented shape.
type Shaped struct {
	Body    []byte
	NextKey string // next page key, if the shape has no member for it
	From    int    // otherwise, index of the quoted key in Body
	To      int    // index after the key; 0 if there is none
}

// Shape returns an answer in the documented shape of msg, or unchanged for a nil schema. raw must be valid JSON and must not
// change.
func Shape(raw []byte, want *Schema) (shaped Shaped, err error) {
	if want == nil {
		return Shaped{Body: raw}, nil
	}
	src := unsafe.String(unsafe.SliceData(raw), len(raw)) //nolint:gosec // the string is only read
	msg := gjson.Get(src, "msg")
	if !msg.IsObject() {
		return shaped, fmt.Errorf("msg: want an object, have %.40s", msg.Raw)
	}
	e := &splicer{src: src, out: make([]byte, 0, len(src)+512)}
	if want.edit != nil {
		shaped.NextKey, err = want.edit(e, msg)
	} else {
		_, err = want.normalize(e, msg.Index)
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

// normalize edits the value at an index into the schema, and returns the index after it. Members without a schema stay
// unchanged.
func (s *Schema) normalize(e *splicer, at int) (end int, err error) {
	switch c := e.src[at]; {
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

// normalize edits the value of a member that is present.
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

// missing returns the text of the required members that were not seen.
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

// A splicer edits a text without re-encoding it, so that other bytes stay unchanged. Edits are made from left to right.
type splicer struct {
	src  string
	out  []byte
	done int // number of bytes of src that are in out, or were replaced

	keyFrom, keyTo int // From and To of the Shaped

	grows bool // out exceeds the maximum length; further edits are dropped
}

// replace replaces src[from:to] by text. It inserts if from == to.
func (s *splicer) replace(from, to int, text string) {
	if len(s.out) > longest(len(s.src)) {
		s.grows = true
		return
	}
	s.out = append(append(s.out, s.src[s.done:from]...), text...)
	s.done = to
}

// moved returns the index in the result for an index of src after all edits so far.
func (s *splicer) moved(at int) int { return len(s.out) + at - s.done }

// bytes returns the edited text.
func (s *splicer) bytes() []byte {
	return append(s.out, s.src[s.done:]...)
}
