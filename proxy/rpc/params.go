package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
)

// arguments are the parameters of a call in canonical JSON; nil for a missing one.
type arguments []json.RawMessage

// read parses the parameters of a POST or socket call: an object, or a list of all parameters. It returns false if
// the node might parse them differently or refuse them.
func (m *method) read(params json.RawMessage) (a arguments, ok bool) {
	a = make(arguments, len(m.params))
	trimmed := bytes.TrimSpace(params)
	switch {
	case len(trimmed) == 0 || string(trimmed) == "null":
		return a, true
	case trimmed[0] == '[':
		n := 0
		gjson.ParseBytes(trimmed).ForEach(func(_, value gjson.Result) bool {
			if n < len(a) {
				a[n] = json.RawMessage(value.Raw)
			}
			n++
			return n <= len(a) // a list may be as long as a body
		})
		if n != len(a) {
			return nil, false
		}
	default:
		members := gjson.ParseBytes(trimmed) // known to be valid JSON
		if !members.IsObject() {
			return nil, false
		}
		members.ForEach(func(name, value gjson.Result) bool {
			if i := m.indexOf(name.Str); i >= 0 {
				a[i] = json.RawMessage(value.Raw)
			}
			return true
		})
	}
	return a, m.canonicalize(a)
}

// canonicalize brings the values of all parameters into their canonical form, for calls in any form. It returns false if the node
// might parse one differently or refuse it.
func (m *method) canonicalize(a arguments) (ok bool) {
	for i, p := range m.params {
		if a[i], ok = p.kind.canonicalize(a[i]); !ok {
			return false
		}
	}
	return true
}

// wholeNumber matches an integer in canonical form. Other forms are passed to the node unchanged and not cached.
var wholeNumber = regexp.MustCompile(`^"(0|[1-9][0-9]{0,17})"$`)

// canonicalize returns the canonical form of a JSON value; nil for one that equals a missing value.
func (k kind) canonicalize(value json.RawMessage) (canonical json.RawMessage, ok bool) {
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
		if !wholeNumber.Match(value) {
			value = json.RawMessage(`"` + unquoted(value) + `"`) // without escapes
		}
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

// plain returns the content of a JSON string that has no escapes and needs none. ok is false for other values.
func plain(value json.RawMessage) (s []byte, ok bool) {
	if !jsonrpc.IsPlain(value) {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// quote returns the canonical JSON of a text, or of a string that encodes bytes.
func (k kind) quote(s string) (canonical json.RawMessage, ok bool) {
	decode := hex.DecodeString
	switch k {
	case text:
		canonical, _ = json.Marshal(s) // texts always encode
		return canonical, true
	case b64Bytes:
		decode = base64.StdEncoding.DecodeString
	}
	b, err := decode(s)
	return k.encode(b), err == nil
}

func (k kind) encode(b []byte) json.RawMessage {
	if k == hexBytes {
		return fmt.Appendf(nil, `"%X"`, b)
	}
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(b) + `"`)
}

// object returns the parameters as sent to the node, without missing ones.
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

func (a arguments) get(m *method, name string) json.RawMessage {
	if i := m.indexOf(name); i >= 0 {
		return a[i]
	}
	return nil
}

func (m *method) indexOf(name string) int {
	return slices.IndexFunc(m.params, func(p param) bool { return p.name == name })
}

// unquoted returns the content of a JSON string, "" for other values.
func unquoted(value json.RawMessage) (s string) {
	if text, ok := plain(value); ok || len(value) == 0 {
		return string(text)
	}
	_ = json.Unmarshal(value, &s)
	return s
}

func (a arguments) with(m *method, name string, value json.RawMessage) arguments {
	b := slices.Clone(a)
	b[m.indexOf(name)] = value
	return b
}
