package devnet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// serveComet serves a part of a node's CometBFT RPC: cometMethods by URI or by JSON-RPC, and subscriptions over the
// WebSocket.
func (n *Node) serveComet(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/websocket":
		n.serveSocket(w, r)
	case r.URL.Path == "/" && r.Method == http.MethodPost:
		rpcHandler(n.call).ServeHTTP(w, r)
	default:
		n.serveURI(w, r)
	}
}

// serveURI answers GET /method?height=number.
func (n *Node) serveURI(w http.ResponseWriter, r *http.Request) {
	params := encode(map[string]string{"height": r.URL.Query().Get("height")})
	result, failure := n.call(rpcRequest{Method: strings.TrimPrefix(r.URL.Path, "/"), Params: params})
	w.Header().Set("Content-Type", "application/json")
	switch {
	case failure == noMethod:
		http.NotFound(w, r)
		return
	case failure != nil:
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(appendAnswer(nil, json.RawMessage("-1"), result, failure))
}

// cometParams are the parameters of all methods.
type cometParams struct {
	Height            json.RawMessage // string or number
	Hash, Tx          []byte
	Path, Data, Query string

	height int64 // default: the newest
}

// A cometMethod returns the result of a call.
type cometMethod func(*Node, cometParams) (json.RawMessage, *rpcError)

// cometMethods are the available methods.
var cometMethods = map[string]cometMethod{
	"health":        func(*Node, cometParams) (json.RawMessage, *rpcError) { return json.RawMessage("{}"), nil },
	"status":        (*Node).status,
	"abci_info":     (*Node).abciInfo,
	"block_results": ofBlock("block_results"), "header": ofBlock("header_result"), "block": ofBlock("block_result"), "validators": ofBlock("validators_result"),
	"commit":     (*Node).commit,
	"abci_query": (*Node).query,
	"tx":         (*Node).tx, "tx_search": (*Node).searchTxs, "broadcast_tx_sync": (*Node).broadcastTx, "broadcast_tx_async": (*Node).broadcastTx,
}

// ofBlock returns a method that renders a text about the requested block.
func ofBlock(text string) cometMethod {
	return func(n *Node, p cometParams) (json.RawMessage, *rpcError) {
		if failure := p.outside(n.Height()); failure != nil {
			return nil, failure
		}
		return n.chain.render(text, p.height, nil), nil
	}
}

// outside returns a node's error for a height without a block.
func (p *cometParams) outside(newest int64) *rpcError {
	switch {
	case p.height <= 0:
		return internalError(fmt.Sprintf("height must be greater than 0, but got %d", p.height))
	case p.height > newest:
		return internalError(fmt.Sprintf("height %d must be less than or equal to the current blockchain height %d", p.height, newest))
	}
	return nil
}

// commit returns the commit of a block. The commit of the newest block is not canonical, and the next
// block replaces it by one with other signatures.
func (n *Node) commit(p cometParams) (json.RawMessage, *rpcError) {
	newest := n.Height()
	if failure := p.outside(newest); failure != nil {
		return nil, failure
	}
	signature := "signature_hash_base64"
	if p.height == newest {
		signature = "seen_hash_base64"
	}
	return n.chain.render("commit_result", p.height, map[string]string{
		"signature": n.chain.value(signature, p.height), "canonical": strconv.FormatBool(p.height < newest),
	}), nil
}

func internalError(data string) *rpcError {
	return &rpcError{Code: -32603, Message: "Internal error", Data: data}
}

// noMethod is the error for an unknown method.
var noMethod = &rpcError{Code: -32601, Message: "Method not found"}

// call calls a method. Positional parameters are ignored.
func (n *Node) call(r rpcRequest) (json.RawMessage, *rpcError) {
	p, err := cometParams{height: n.Height()}, error(nil)
	if strings.HasPrefix(string(r.Params), "{") {
		err = json.Unmarshal(r.Params, &p)
	}
	if text := strings.Trim(string(p.Height), `"`); text != "" && text != "null" && err == nil {
		p.height, err = strconv.ParseInt(text, 10, 64)
	}
	method := cometMethods[r.Method]
	switch {
	case method == nil || n.chain.cosmos == nil && (r.Method == "abci_query" || strings.HasPrefix(r.Method, "broadcast_tx")):
		return nil, noMethod
	case err != nil:
		return nil, &rpcError{Code: -32602, Message: "Invalid params", Data: err.Error()}
	}
	return method(n, p)
}

// abciInfo names the newest block that can be read.
func (n *Node) abciInfo(cometParams) (json.RawMessage, *rpcError) {
	name, version, _ := n.chain.application()
	return n.chain.render("abci_info", n.Height()+n.ahead(), map[string]string{"name": name, "version": version}), nil
}

// status describes the node and its newest block, which for a moment cannot be read yet.
func (n *Node) status(cometParams) (json.RawMessage, *rpcError) {
	c := n.chain
	_, _, txIndex := c.application()
	return c.render("status", max(1, c.proposed.Load()-n.lag.Load())+n.ahead(), map[string]string{
		"tx_index": txIndex, "rpc": n.comet.url(), "catching_up": strconv.FormatBool(n.lag.Load() > 0),
		"first_hash": c.value("block_hash", 1), "first_time": c.value("time", 1),
	}), nil
}

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
