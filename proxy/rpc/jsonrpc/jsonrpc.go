// Package jsonrpc reads and writes calls as CometBFT does, whose deviations from JSON-RPC 2.0
// clients have grown used to.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// A Call is one call as it came.
type Call struct {
	ID     json.RawMessage // as it is given back; nil for a notification, which is not run
	Method string
	Params json.RawMessage // nil where there are none
}

// fields are those of a call. The errors of encoding/json name this type, and the node's is
// the same.
type fields = struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      interface{}     `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// Read reads a body that holds a call and nothing else. The error is the text of the node's.
func Read(body []byte) (Call, error) {
	if c, _, ok := readPlain(body); ok {
		return c, nil
	}
	if err := json.Unmarshal(body, new(fields)); err != nil {
		return Call{}, err
	}
	return ReadFirst(body)
}

// readPlain reads a call as libraries write it, in a quarter of the time: each of its members once
// and by its own name, an id that is a number or a text without what would be escaped. It is not ok for others.
// at is where the id is in the body.
func readPlain(body []byte) (c Call, at int, ok bool) {
	if !jsontext.Valid(body) {
		return c, 0, false
	}
	call := gjson.ParseBytes(body)
	ok = call.IsObject()
	seen := 0
	call.ForEach(func(name, value gjson.Result) bool {
		var member int
		switch name.Raw {
		case `"jsonrpc"`:
			member, ok = 1, value.Type == gjson.String
		case `"id"`:
			member, ok = 2, value.Type == gjson.Number || IsPlain([]byte(value.Raw))
			c.ID, at = json.RawMessage(value.Raw), value.Index
		case `"method"`:
			member, ok = 4, IsPlain([]byte(value.Raw))
			c.Method = value.Str
		case `"params"`:
			member, ok = 8, value.Type == gjson.JSON
			c.Params = json.RawMessage(value.Raw)
		default:
			ok = false
		}
		ok = ok && seen&member == 0
		seen |= member
		return ok
	})
	return c, at, ok
}

// IsPlain tells a text, as valid JSON, whose JSON is the same in any spelling that the node writes.
func IsPlain(text []byte) bool {
	if len(text) < 2 || text[0] != '"' {
		return false
	}
	for _, c := range text[1 : len(text)-1] {
		if !isPlain(c) {
			return false
		}
	}
	return true
}

func isPlain(c byte) bool {
	return ' ' <= c && c <= '~' && c != '\\' && c != '<' && c != '>' && c != '&'
}

// ReadFirst reads the first JSON value of a message; what follows is dropped. The error is the
// text of the node's.
func ReadFirst(message []byte) (Call, error) {
	var f fields
	d := json.NewDecoder(bytes.NewReader(message))
	d.UseNumber()
	if err := d.Decode(&f); err != nil {
		return Call{}, err
	}
	return callOf(f)
}

// callOf makes an id what is given back: a text as the node writes it, or a number as it stands. The node gives back
// only the whole part of a number, by which a client that compares ids does not find its call.
func callOf(f fields) (Call, error) {
	c := Call{Method: f.Method, Params: f.Params}
	switch id := f.ID.(type) {
	case nil:
	case string:
		c.ID, _ = json.Marshal(id) // texts always encode
	case json.Number:
		c.ID = json.RawMessage(id)
	default:
		return Call{}, fmt.Errorf("json-rpc ID (%v) is of unknown type (%v)", id, reflect.TypeOf(id))
	}
	return c, nil
}

// Each reads a call, or the calls of a batch, and calls f with one after the other: a batch
// may be of a hundred thousand. The error is the text of the node's, also of a body of which
// some calls were read before.
func Each(body []byte, f func(Call)) (batch bool, err error) {
	all := gjson.Result{}
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) && jsontext.Valid(body) {
		all = gjson.Parse(unsafe.String(&body[0], len(body))) //nolint:gosec // which is not written meanwhile
	}
	if !all.IsArray() {
		c, err := Read(body)
		if err == nil {
			f(c)
		}
		return false, err
	}
	all.ForEach(func(_, one gjson.Result) bool {
		var c Call
		if c, err = Read([]byte(one.Raw)); err == nil {
			f(c)
		}
		return err == nil
	})
	if err != nil {
		_, err = Read(body) // as the node says of a batch that it cannot read
	}
	return true, err
}

// A Code says what kind of error a call came to.
type Code int

// The codes of the errors that a node returns.
const (
	ParseError     Code = -32700
	InvalidRequest Code = -32600
	NoMethod       Code = -32601
	InvalidParams  Code = -32602
	InternalError  Code = -32603
	ServerError    Code = -32000
)

var messages = map[Code]string{
	ParseError: "Parse error. Invalid JSON", InvalidRequest: "Invalid Request", NoMethod: "Method not found", InvalidParams: "Invalid params",
	InternalError: "Internal error", ServerError: "Server error",
}

// Error is the member of an answer that says what is wrong.
func Error(code Code, data string) []byte {
	said, _ := json.Marshal(data) // texts always encode
	return fmt.Appendf(nil, `"error":{"code":%d,"message":"%s","data":%s}`, code, messages[code], said)
}

// PassedError is the member of an error that a server in front of the node has given, by its code and message.
func PassedError(code int64, message string) []byte {
	said, _ := json.Marshal(message) // texts always encode
	return fmt.Appendf(nil, `"error":{"code":%d,"message":%s}`, code, said)
}

// MethodNotFound is the member of the answer to a call of an unknown method.
var MethodNotFound = []byte(`"error":{"code":-32601,"message":"Method not found"}`)

// IsError tells an error from a result.
func IsError(member []byte) bool { return bytes.HasPrefix(member, []byte(`"error"`)) }

// NoID is the id of what is asked by a URI, and of failures that belong to no call.
var NoID = json.RawMessage("-1")

// AppendAnswer adds an answer with a member to the call with an id, without one for nil.
func AppendAnswer(b []byte, id json.RawMessage, member []byte) []byte {
	if id == nil {
		b = append(b, `{"jsonrpc":"2.0",`...)
	} else {
		b = Begin(b, id)
	}
	return append(append(b, member...), '}')
}

// Begin adds what stands before the member in an answer to the call with an id. Behind the member is a brace.
func Begin[ID ~string | ~[]byte](b []byte, id ID) []byte {
	return append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), ',')
}
