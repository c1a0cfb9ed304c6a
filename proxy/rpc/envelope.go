package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// A call is one call as it came.
type call struct {
	id     json.RawMessage // as it is given back; nil for a notification, which is not run
	method string
	params json.RawMessage
}

// readBody reads the calls of a body. The error is the text of the node's.
func readBody(body []byte) (calls []call, batch bool, err error) {
	var many []json.RawMessage
	if json.Unmarshal(body, &many) == nil && many != nil {
		for _, one := range many {
			c, err := readCall(one)
			if err != nil {
				_, err = readCall(body) // as the node says of a batch that it cannot read
				return nil, true, err
			}
			calls = append(calls, c)
		}
		return calls, true, nil
	}
	c, err := readCall(body)
	return []call{c}, false, err
}

// readCall reads a call. The errors of encoding/json name the type, and the node's is the
// same.
func readCall(body []byte) (c call, err error) {
	var fields struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      interface{}     `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(body, &fields); err != nil {
		return call{}, err
	}
	c = call{method: fields.Method, params: fields.Params}
	switch id := fields.ID.(type) {
	case nil:
	case string:
		c.id, _ = json.Marshal(id) // texts always encode
	case float64:
		c.id = strconv.AppendInt(nil, int64(id), 10)
	default:
		return call{}, fmt.Errorf("json-rpc ID (%v) is of unknown type (%v)", id, reflect.TypeOf(id))
	}
	return c, nil
}

// Errors of JSON-RPC, as the node calls them.
var (
	errMethodNotFound = []byte(`"error":{"code":-32601,"message":"Method not found"}`)
	errTooFew         = failure(-32603, "Internal error", "reflect: Call with too few input arguments")
)

// uriID is the id of what is asked by a URI, and of failures that belong to no call.
var uriID = json.RawMessage("-1")

// failure is the member of an answer that says what is wrong.
func failure(code int, message, data string) []byte {
	said, _ := json.Marshal(data) // texts always encode
	return fmt.Appendf(nil, `"error":{"code":%d,"message":"%s","data":%s}`, code, message, said)
}

// isFailure tells an error from a result.
func isFailure(member []byte) bool { return bytes.HasPrefix(member, []byte(`"error"`)) }

// appendAnswer adds an answer to a call with an id, nil for none.
func appendAnswer(b []byte, id json.RawMessage, member []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != nil {
		b = append(append(append(b, `"id":`...), id...), ',')
	}
	return append(append(b, member...), '}')
}
