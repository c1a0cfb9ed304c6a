package devnet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// An rpcRequest is one call.
type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// An rpcError is the error of a call.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

// An rpcHandler serves JSON-RPC over HTTP: a call or a batch of calls in the body of a POST. The function answers one
// call.
type rpcHandler func(rpcRequest) (json.RawMessage, *rpcError)

// ServeHTTP implements http.Handler.
func (h rpcHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 5<<20))
	w.Header().Set("Content-Type", "application/json")
	var batch []rpcRequest
	if json.Unmarshal(body, &batch) == nil && len(batch) > 0 {
		var out []byte
		for i, call := range batch {
			out = h.appendOne(append(out, "[,"[min(i, 1)]), call)
		}
		_, _ = w.Write(append(out, "]\n"...)) // the client may be gone
		return
	}
	var call rpcRequest
	_ = json.Unmarshal(body, &call) // a malformed call has no method
	_, _ = w.Write(append(h.appendOne(nil, call), '\n'))
}

// appendOne appends the response to one call.
func (h rpcHandler) appendOne(out []byte, call rpcRequest) []byte {
	if call.Method == "" {
		return appendAnswer(out, call.ID, nil, &rpcError{Code: -32600, Message: "invalid request"})
	}
	result, failure := h(call)
	return appendAnswer(out, call.ID, result, failure)
}

// appendAnswer appends a response.
func appendAnswer(out []byte, id, result json.RawMessage, failure *rpcError) []byte {
	name := "result"
	if failure != nil {
		name, result = "error", encode(failure)
	}
	return fmt.Appendf(out, `{"jsonrpc":"2.0","id":%s,%q:%s}`, cmp.Or(string(id), "null"), name, result)
}

func encode(value any) []byte {
	b, _ := json.Marshal(value) // plain values always encode
	return b
}
