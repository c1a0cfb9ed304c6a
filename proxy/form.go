package proxy

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// A form is the documented shape of a JSON value. Filling a value in makes it
// that shape: the node leaves out what is zero or empty and sends null for an
// empty list, where the documented interface has every required field.
type form struct {
	kind    formKind
	zero    string  // the JSON of the empty value
	members []field // of an object
	items   *form   // of a list; nil: any
	edit    reshape // makes a msg of this form where filling in is not enough; nil: fill
}

type formKind int

const (
	textKind formKind = iota
	integerKind
	booleanKind
	objectKind
	listKind
)

// A field is a member of an object.
type field struct {
	name string
	*form
	need need
}

// need says what the absence of a member means.
type need int

const (
	required  need = iota // put there, with its empty value
	optional              // left as the node sent it
	essential             // the node did not answer what it was asked
)

// fill edits a value into the form. What the form does not speak of stays.
func (f *form) fill(e *splicer, v gjson.Result) error {
	if v.Type == gjson.Null {
		e.replace(v.Index, v.Index+len(v.Raw), f.zero)
		return nil
	}
	switch {
	case f.kind == objectKind && v.IsObject():
		return f.fillMembers(e, v)
	case f.kind == listKind && v.IsArray():
		return f.fillItems(e, v)
	case f.kind == textKind && v.Type == gjson.String, f.kind == integerKind && v.Type == gjson.Number, f.kind == booleanKind && v.IsBool():
		return nil
	}
	return fmt.Errorf("want %s, have %.40s", f.kind, v.Raw)
}

func (f *form) fillItems(e *splicer, v gjson.Result) (err error) {
	if f.items == nil {
		return nil
	}
	v.ForEach(func(_, item gjson.Result) bool {
		err = f.items.fill(e, item)
		return err == nil
	})
	return err
}

func (f *form) fillMembers(e *splicer, v gjson.Result) (err error) {
	var seen uint32
	empty := true
	v.ForEach(func(key, value gjson.Result) bool {
		empty = false
		if i := f.index(key.Str); i >= 0 && seen&(1<<i) == 0 {
			seen |= 1 << i
			err = f.members[i].fillIn(e, value)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	missing, err := f.missing(seen, empty)
	if missing != "" {
		end := v.Index + len(v.Raw) - 1
		e.replace(end, end, missing)
	}
	return err
}

// fillIn fills the member's value in, where there is one.
func (m *field) fillIn(e *splicer, v gjson.Result) error {
	if v.Type == gjson.Null && m.need == optional {
		return nil
	}
	if v.Type == gjson.Null && m.need == essential {
		return fmt.Errorf("%s is null", m.name)
	}
	if err := m.form.fill(e, v); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// missing renders the required members that are not among those seen.
func (f *form) missing(seen uint32, empty bool) (string, error) {
	var b strings.Builder
	for i, m := range f.members {
		if seen&(1<<i) != 0 || m.need == optional {
			continue
		}
		if m.need == essential {
			return "", fmt.Errorf("%s is missing", m.name)
		}
		if !empty {
			b.WriteByte(',')
		}
		empty = false
		b.WriteString(`"` + m.name + `":` + m.zero)
	}
	return b.String(), nil
}

func (f *form) index(name string) int {
	for i := range f.members {
		if f.members[i].name == name {
			return i
		}
	}
	return -1
}

// objectOf makes the form of an object; its empty value has all that is
// required.
func objectOf(members ...field) *form {
	f := &form{kind: objectKind, members: members}
	inside, _ := f.missing(0, true)
	f.zero = "{" + inside + "}"
	return f
}

func listOf(items *form) *form { return &form{kind: listKind, zero: "[]", items: items} }

func (k formKind) String() string {
	return [...]string{"a string", "an integer", "a boolean", "an object", "a list"}[k]
}
