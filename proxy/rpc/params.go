package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
)

// arguments are the parameters of a call, each as JSON and in one spelling; nil for one that
// is left out.
type arguments []json.RawMessage

// read reads the parameters of a call by POST or over a socket: an object, or a list with all of
// them. It is not ok where the node may read them otherwise, or refuses them.
func (m *method) read(params json.RawMessage) (a arguments, ok bool) {
	a = make(arguments, len(m.params))
	trimmed := bytes.TrimSpace(params)
	switch {
	case len(trimmed) == 0 || string(trimmed) == "null":
		return a, true
	case trimmed[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(trimmed, &list) != nil || len(list) != len(m.params) {
			return nil, len(list) == 0 && len(m.params) == 0
		}
		copy(a, list)
	default:
		members := gjson.ParseBytes(trimmed) // it was read as JSON
		if !members.IsObject() {
			return nil, false
		}
		members.ForEach(func(name, value gjson.Result) bool {
			if i := m.place(name.Str); i >= 0 {
				a[i] = json.RawMessage(value.Raw)
			}
			return true
		})
	}
	for i, p := range m.params {
		if a[i], ok = p.kind.spell(a[i]); !ok {
			return nil, false
		}
	}
	return a, true
}

// wholeNumber is an integer in the one spelling that is kept: the node refuses others, or reads
// them as the same number.
var wholeNumber = regexp.MustCompile(`^"(0|[1-9][0-9]{0,17})"$`)

// spell gives a value its one spelling; nil for one that says as much as none.
func (k kind) spell(value json.RawMessage) (spelled json.RawMessage, ok bool) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || string(value) == "null" {
		return nil, true
	}
	switch {
	case k == raw:
		return value, true
	case k == flag && string(value) == "false":
		return nil, true
	case k == flag:
		return value, string(value) == "true"
	case k == integer:
		return value, wholeNumber.Match(value)
	}
	if _, ok := plain(value); ok && k == text {
		return value, true
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return nil, false
	}
	return k.quote(s)
}

// plain is a text of JSON that no escape is in, without its quotes.
func plain(value json.RawMessage) (s []byte, ok bool) {
	if !jsonrpc.IsPlain(value) {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// quote is a text as JSON, in the spelling of its kind.
func (k kind) quote(s string) (json.RawMessage, bool) {
	switch k {
	case hexBytes:
		b, err := hex.DecodeString(s)
		if err != nil {
			return nil, false
		}
		s = strings.ToUpper(hex.EncodeToString(b))
	case b64Bytes:
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, false
		}
		s = base64.StdEncoding.EncodeToString(b)
	}
	quoted, _ := json.Marshal(s) // texts always encode
	return quoted, true
}

// object are the parameters as the node is asked, without the parameters that are left out.
func (m *method) object(a arguments) json.RawMessage {
	b := []byte{'{'}
	for i, value := range a {
		if value == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(append(b, '"'), m.params[i].name...), `":`...), value...)
	}
	return append(b, '}')
}

// of is the value of a parameter by its name, nil for none.
func (a arguments) of(m *method, name string) json.RawMessage {
	if i := m.place(name); i >= 0 {
		return a[i]
	}
	return nil
}

// place is where a parameter stands, -1 for none of that name.
func (m *method) place(name string) int {
	return slices.IndexFunc(m.params, func(p param) bool { return p.name == name })
}

// unquoted is the text that a value is, "" where it is none.
func unquoted(value json.RawMessage) (s string) {
	if text, ok := plain(value); ok || len(value) == 0 {
		return string(text)
	}
	_ = json.Unmarshal(value, &s)
	return s
}

// with is a copy with another value of a parameter.
func (a arguments) with(m *method, name string, value json.RawMessage) arguments {
	b := slices.Clone(a)
	b[m.place(name)] = value
	return b
}
