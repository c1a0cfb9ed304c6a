package devnet

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// Limits of the JSON-RPC servers.
const (
	maxRPCBody  = 5 << 20
	maxRPCBatch = 1000 // calls
)

// An rpcRequest is one call.
type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// An rpcError refuses a call. With a status the whole HTTP request is refused,
// as gateways do.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`

	status int
	plain  bool // the refusal is not JSON
}

// An rpcHandler serves JSON-RPC over HTTP: one call or a batch of them in the
// body of a POST. The function answers one call.
type rpcHandler func(rpcRequest) (json.RawMessage, *rpcError)

// ServeHTTP serves one request.
func (h rpcHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRPCBody))
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case err != nil:
		http.Error(w, "content length too large", http.StatusRequestEntityTooLarge)
		return
	}
	answer, failure := h.respond(bytes.TrimSpace(body))
	if failure != nil && failure.plain {
		http.Error(w, failure.Message, failure.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if failure != nil {
		w.WriteHeader(failure.status)
		answer = appendAnswer(nil, nil, nil, failure)
	}
	_, _ = w.Write(append(answer, '\n')) // the client may be gone
}

// respond answers a body. The error, if any, is for all of it and has a status.
func (h rpcHandler) respond(body []byte) (out []byte, failure *rpcError) {
	if !bytes.HasPrefix(body, []byte("[")) {
		return h.appendOne(nil, body)
	}
	var batch []json.RawMessage
	switch err := json.Unmarshal(body, &batch); {
	case err != nil:
		return appendAnswer(nil, nil, nil, &rpcError{Code: -32700, Message: "parse error"}), nil
	case len(batch) == 0 || len(batch) > maxRPCBatch:
		return appendAnswer(nil, nil, nil, &rpcError{Code: -32600, Message: "batch empty or too large"}), nil
	}
	for i, one := range batch {
		if out, failure = h.appendOne(append(out, "[,"[min(i, 1)]), one); failure != nil {
			return nil, failure
		}
	}
	return append(out, ']'), nil
}

// appendOne appends the answer to one call.
func (h rpcHandler) appendOne(out, body []byte) ([]byte, *rpcError) {
	var request rpcRequest
	if json.Unmarshal(body, &request) != nil || request.Method == "" {
		return appendAnswer(out, request.ID, nil, &rpcError{Code: -32600, Message: "invalid request"}), nil
	}
	result, failure := h(request)
	if failure != nil && failure.status != 0 {
		return nil, failure
	}
	return appendAnswer(out, request.ID, result, failure), nil
}

// appendAnswer appends an answer. Results are JSON and can be large: they are
// not looked through again.
func appendAnswer(out []byte, id, result json.RawMessage, failure *rpcError) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	out = append(append(out, `{"jsonrpc":"2.0","id":`...), id...)
	if failure != nil {
		out = append(append(out, `,"error":`...), encode(failure)...)
	} else {
		out = append(append(out, `,"result":`...), result...)
	}
	return append(out, '}')
}

func encode(value any) []byte {
	b, err := json.Marshal(value)
	if err != nil {
		return []byte(err.Error()) // cannot happen: all values are plain
	}
	return b
}
