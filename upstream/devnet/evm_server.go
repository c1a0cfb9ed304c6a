package devnet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// Limits of the execution client's server.
const (
	maxEVMBody  = 5 << 20
	maxEVMBatch = 1000
)

// An evmServer answers as the execution client's JSON-RPC server does, in the
// part that reading logs needs.
type evmServer struct{ evm *EVM }

type evmRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// An evmError refuses a call. With a status the whole HTTP request is refused,
// as gateways do.
type evmError struct {
	rpcError
	status int
	plain  bool // the refusal is not JSON
}

func evmFailure(code int, format string, arguments ...any) *evmError {
	return &evmError{rpcError: rpcError{Code: code, Message: fmt.Sprintf(format, arguments...)}}
}

func badParams(format string, arguments ...any) *evmError {
	return evmFailure(-32602, format, arguments...)
}

// ServeHTTP serves one request or a batch.
func (s *evmServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEVMBody))
	if err != nil {
		http.Error(w, "content length too large", http.StatusRequestEntityTooLarge)
		return
	}
	answer, failure := s.respond(bytes.TrimSpace(body))
	if failure != nil && failure.plain {
		http.Error(w, failure.Message, failure.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if failure != nil {
		w.WriteHeader(failure.status)
		answer = appendAnswer(nil, json.RawMessage("null"), nil, failure)
	}
	_, _ = w.Write(append(answer, '\n')) // the client may be gone
}

// respond answers a body. The error, if any, is for all of it and has a status.
func (s *evmServer) respond(body []byte) ([]byte, *evmError) {
	if !bytes.HasPrefix(body, []byte("[")) {
		return s.appendOne(nil, body)
	}
	null := json.RawMessage("null")
	var batch []json.RawMessage
	switch err := json.Unmarshal(body, &batch); {
	case err != nil:
		return appendAnswer(nil, null, nil, evmFailure(-32700, "parse error")), nil
	case len(batch) == 0:
		return appendAnswer(nil, null, nil, evmFailure(-32600, "empty batch")), nil
	case len(batch) > maxEVMBatch:
		return appendAnswer(nil, null, nil, evmFailure(-32600, "batch too large")), nil
	}
	out := []byte("[")
	for i, one := range batch {
		if i > 0 {
			out = append(out, ',')
		}
		var failure *evmError
		if out, failure = s.appendOne(out, one); failure != nil {
			return nil, failure
		}
	}
	return append(out, ']'), nil
}

// appendOne appends the answer to one request.
func (s *evmServer) appendOne(out, body []byte) ([]byte, *evmError) {
	if !json.Valid(body) {
		return appendAnswer(out, json.RawMessage("null"), nil, evmFailure(-32700, "parse error")), nil
	}
	var request evmRequest
	err := json.Unmarshal(body, &request)
	id := request.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	if err != nil || request.Method == "" {
		return appendAnswer(out, id, nil, evmFailure(-32600, "invalid request")), nil
	}
	result, failure := s.call(request)
	if failure != nil && failure.status != 0 {
		return nil, failure
	}
	return appendAnswer(out, id, result, failure), nil
}

func (s *evmServer) call(r evmRequest) (json.RawMessage, *evmError) {
	method, known := evmMethods[r.Method]
	if !known {
		return nil, evmFailure(-32601, "the method %s does not exist/is not available", r.Method)
	}
	s.evm.count(r.Method)
	var params []json.RawMessage
	if r.Params != nil && json.Unmarshal(r.Params, &params) != nil {
		return nil, badParams("non-array args")
	}
	for len(params) > 0 && string(params[len(params)-1]) == "null" {
		params = params[:len(params)-1] // null is absent
	}
	switch {
	case len(params) < method.least:
		return nil, badParams("missing value for required argument %d", len(params))
	case len(params) > method.most:
		return nil, badParams("too many arguments, want at most %d", method.most)
	}
	return method.run(s.evm, slices.Concat(params, make([]json.RawMessage, method.most-len(params))))
}

// appendAnswer appends an answer. Results are JSON and can be large: they are
// not looked through again.
func appendAnswer(out []byte, id, result json.RawMessage, failure *evmError) []byte {
	out = append(append(out, `{"jsonrpc":"2.0","id":`...), id...)
	if failure != nil {
		out = append(append(out, `,"error":`...), encode(failure.rpcError)...)
	} else {
		out = append(append(out, `,"result":`...), result...)
	}
	return append(out, '}')
}
