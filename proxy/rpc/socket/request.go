package socket

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// A request is a call. The id is as it is given back; nil for a notification, which
// is not run.
type request struct {
	id     json.RawMessage
	method string
	params json.RawMessage
}

// readRequest reads the first JSON value of a message; what follows is dropped. The error
// is the text of the node's.
func readRequest(message []byte) (r request, err error) {
	// The errors of encoding/json name this type, and the node's is the same.
	var raw struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      interface{}     `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(bytes.NewReader(message)).Decode(&raw); err != nil {
		return request{}, err
	}
	r = request{method: raw.Method, params: raw.Params}
	switch id := raw.ID.(type) {
	case nil:
	case string:
		r.id, _ = json.Marshal(id) // texts always encode
	case float64:
		r.id = strconv.AppendInt(nil, int64(id), 10)
	default:
		return request{}, fmt.Errorf("json-rpc ID (%v) is of unknown type (%v)", id, reflect.TypeOf(id))
	}
	return r, nil
}

// The codes of errors, and what they are called.
const (
	parseError    = `"error":{"code":-32700,"message":"Parse error. Invalid JSON","data":%s}`
	internalError = `"error":{"code":-32603,"message":"Internal error","data":%s}`
	serverError   = `"error":{"code":-32000,"message":"Server error","data":%s}`
)

func errorMember(format, data string) []byte {
	text, _ := json.Marshal(data) // texts always encode
	return fmt.Appendf(nil, format, text)
}

// answer is a message with a member, to the call with an id; without one for nil.
func answer(id json.RawMessage, member []byte) []byte {
	message := make([]byte, 0, len(id)+len(member)+32)
	message = append(message, `{"jsonrpc":"2.0",`...)
	if id != nil {
		message = append(append(append(message, `"id":`...), id...), ',')
	}
	return append(append(message, member...), '}')
}

// queryOf reads the one parameter of subscribe and unsubscribe, by name or in a list. The
// error is the text of the node's.
func queryOf(params json.RawMessage) (query string, err error) {
	var list []json.RawMessage
	named := struct{ value json.RawMessage }{}
	if bytes.HasPrefix(bytes.TrimSpace(params), []byte("[")) {
		if err = json.Unmarshal(params, &list); err == nil && len(list) != 1 {
			raw := make([][]byte, len(list))
			for i := range list {
				raw[i] = list[i]
			}
			return "", fmt.Errorf("expected 1 parameters ([query]), got %d (%v)", len(list), raw)
		}
		if err == nil {
			named.value = list[0]
		}
	} else {
		var members map[string]json.RawMessage
		err = json.Unmarshal(params, &members)
		named.value = members["query"]
	}
	if err == nil && named.value != nil {
		err = json.Unmarshal(named.value, &query)
	}
	return query, err
}
