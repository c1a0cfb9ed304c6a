// Package jsonrpc reads and writes calls as CometBFT does, including the deviations from JSON-RPC 2.0 that clients rely
// on. The member of an answer is its result or error with the name: "result":… or "error":….
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// Call is one call of a body or message.
type Call struct {
	ID     json.RawMessage // as the answer repeats it; nil for a notification, which is not run
	Method string
	Params json.RawMessage // nil for none
}

// fields are the members of a call. The id is decoded later, because a decoded one may take many times its text.
type fields = struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// nodeFields are the fields at the node. Errors for a value that is no object contain the name of this type.
type nodeFields = struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      interface{}     `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// Read parses a body that holds one call and nothing else. Its error has the node's text.
func Read(body []byte) (Call, error) {
	if c, _, ok := readPlain(body); ok {
		return c, nil
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return Call{}, nodeError(err)
	}
	return callOf(f)
}

// nodeError returns an error of decoding fields with the node's text.
func nodeError(err error) error {
	if of, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && of.Type == reflect.TypeFor[fields]() {
		of.Type = reflect.TypeFor[nodeFields]()
	}
	return err
}

// readPlain parses a call as libraries write it, in a quarter of the time: each member once, and an id that is a
// number or a plain string. It returns false for other calls. at is the position of the id in the body.
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

// IsPlain reports whether a valid JSON string contains no character that the node might escape.
func IsPlain(text []byte) bool {
	if !bytes.HasPrefix(text, []byte(`"`)) {
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

// ReadFirst parses the first JSON value of a message and ignores the rest. Its error has the node's text.
func ReadFirst(message []byte) (Call, error) {
	var f fields
	if err := json.NewDecoder(bytes.NewReader(message)).Decode(&f); err != nil {
		return Call{}, nodeError(err)
	}
	return callOf(f)
}

const (
	maxID    = 64 << 10 // maximum length of an id, in bytes
	maxShown = 256      // maximum length of an id in an error, in characters
)

// callOf returns a call with the id that its answer repeats: a string as the node writes it, or a number
// unchanged. Nodes repeat only the whole part of a number, so that clients which compare ids do not find their
// call.
func callOf(f fields) (Call, error) {
	c := Call{Method: f.Method, Params: f.Params}
	if len(f.ID) > maxID {
		return Call{}, fmt.Errorf("json-rpc ID is longer than %d bytes", maxID)
	}
	switch first := string(f.ID[:min(1, len(f.ID))]); first {
	case "", "n": // null
	case `"`:
		var id string
		_ = json.Unmarshal(f.ID, &id) // is a string
		c.ID, _ = json.Marshal(id)    // strings always encode
	case "t", "f", "[", "{":
		var id any
		d := json.NewDecoder(bytes.NewReader(f.ID))
		d.UseNumber()
		_ = d.Decode(&id) // is JSON
		return Call{}, fmt.Errorf("json-rpc ID (%.*s) is of unknown type (%v)", maxShown, fmt.Sprint(id), reflect.TypeOf(id))
	default:
		c.ID = f.ID
	}
	return c, nil
}

// Each parses a call, or the calls of a batch, and passes them to f one by one, because a batch may contain a
// hundred thousand, until f returns false. Its error has the node's text, and may follow calls that were already passed to f.
func Each(body []byte, f func(Call) (more bool)) (err error) {
	all := gjson.Result{}
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) && jsontext.Valid(body) {
		all = gjson.Parse(unsafe.String(&body[0], len(body))) //nolint:gosec // body does not change meanwhile
	}
	if !all.IsArray() {
		c, err := Read(body)
		if err == nil {
			f(c)
		}
		return err
	}
	all.ForEach(func(_, one gjson.Result) bool {
		var c Call
		c, err = Read([]byte(one.Raw))
		return err == nil && f(c)
	})
	if err != nil {
		_, err = Read(body) // the node's error for a batch that it cannot read
	}
	return err
}

// Code is the code of an error.
type Code int

// Codes of the errors that nodes return.
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

// Error returns the member of an answer with an error.
func Error(code Code, data string) []byte {
	quoted, _ := json.Marshal(data) // strings always encode
	return fmt.Appendf(nil, `"error":{"code":%d,"message":"%s","data":%s}`, code, messages[code], quoted)
}

// PassedError returns the member of an answer with the error of a node, or of a server in front of it. data is "" for none.
func PassedError(code int64, message, data string) []byte {
	quoted, _ := json.Marshal(message) // strings always encode
	member := fmt.Appendf(nil, `"error":{"code":%d,"message":%s`, code, quoted)
	if data != "" {
		quoted, _ = json.Marshal(data)
		member = fmt.Appendf(member, `,"data":%s`, quoted)
	}
	return append(member, '}')
}

// MethodNotFound is the member of the answer to a call of an unknown method.
var MethodNotFound = []byte(`"error":{"code":-32601,"message":"Method not found"}`)

// IsError reports whether a member is an error.
func IsError(member []byte) bool { return bytes.HasPrefix(member, []byte(`"error"`)) }

// NoID is the id of answers to URIs and of failures that belong to no call.
var NoID = json.RawMessage("-1")

// AppendAnswer appends the answer with a member to the call with an id, or an answer without id if that is nil.
func AppendAnswer(b []byte, id json.RawMessage, member []byte) []byte {
	if id == nil {
		b = append(b, `{"jsonrpc":"2.0",`...)
	} else {
		b = Begin(b, id)
	}
	return append(append(b, member...), '}')
}

// AnswerSize returns the size of the answer with a member to the call with an id, in bytes.
func AnswerSize(id json.RawMessage, member []byte) int {
	return len(`{"jsonrpc":"2.0","id":,}`) + len(id) + len(member)
}

// Begin appends the answer to the call with an id up to the member. The caller appends the member and a brace.
func Begin[ID ~string | ~[]byte](b []byte, id ID) []byte {
	return append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), ',')
}
