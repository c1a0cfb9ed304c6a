package devnet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A cometServer answers as the CometBFT RPC server of a node does, in part:
// status, abci_info, abci_query, health, header, block, block_results, tx and subscriptions.
type cometServer struct{ node *Node }

// ServeHTTP serves methods by path, JSON-RPC at the root, and the websocket.
func (s *cometServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/websocket":
		s.serveSocket(w, r)
	case r.URL.Path == "/" && r.Method == http.MethodPost:
		rpcHandler(s.dispatch).ServeHTTP(w, r)
	default:
		s.serveURI(w, r)
	}
}

// serveURI answers GET /method?height=number.
func (s *cometServer) serveURI(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if _, known := cometMethods[name]; !known {
		http.NotFound(w, r)
		return
	}
	result, failure := s.call(name, r.URL.Query().Get("height"), "http")
	w.Header().Set("Content-Type", "application/json")
	if failure != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(appendAnswer(nil, json.RawMessage("-1"), result, failure))
}

// dispatch answers a call by JSON-RPC. Heights come as texts or numbers.
func (s *cometServer) dispatch(r rpcRequest) (json.RawMessage, *rpcError) {
	var params struct{ Height json.RawMessage }
	_ = json.Unmarshal(r.Params, &params) // lists of arguments are not read
	if method := ofTxs[r.Method]; method != nil {
		return method(s.node, r)
	}
	return s.call(r.Method, string(params.Height), "json")
}

func internalError(data string) *rpcError {
	return &rpcError{Code: -32603, Message: "Internal error", Data: data}
}

// A cometMethod renders its result at a height.
type cometMethod struct {
	ofBlock bool // the height is an argument, by default the newest
	render  func(n *Node, height int64) []byte
}

// cometMethods are what can be called.
var cometMethods = map[string]cometMethod{
	"health":        {false, func(*Node, int64) []byte { return []byte("{}") }},
	"status":        {false, (*Node).status},
	"abci_info":     {false, (*Node).abciInfo},
	"block_results": {true, (*Node).blockResults},
	"header":        {true, func(n *Node, h int64) []byte { return fmt.Appendf(nil, `{"header":%s}`, n.chain.header(h)) }},
	"blockchain":    {false, (*Node).blockchain},
	"block": {true, func(n *Node, h int64) []byte {
		return fmt.Appendf(nil, `{"block_id":%s,"block":%s}`, n.chain.blockID(h), n.chain.block(h))
	}},
}

// call calls a method with the height as the request has it, in the notation
// that texts about it name.
func (s *cometServer) call(name, text, notation string) (json.RawMessage, *rpcError) {
	method, known := cometMethods[name]
	if !known {
		return nil, &rpcError{Code: -32601, Message: "Method not found"}
	}
	newest := s.node.Height()
	height := newest
	if text != "" && text != "null" {
		var err error
		if height, err = strconv.ParseInt(strings.Trim(text, `"`), 10, 64); err != nil {
			return nil, &rpcError{Code: -32602, Message: "Invalid params",
				Data: fmt.Sprintf("error converting %s params to arguments: invalid 64-bit integer encoding %q, expected string", notation, text)}
		}
	}
	switch {
	case method.ofBlock && height <= 0:
		return nil, internalError(fmt.Sprintf("height must be greater than 0, but got %d", height))
	case method.ofBlock && height > newest:
		return nil, internalError(fmt.Sprintf("height %d must be less than or equal to the current blockchain height %d", height, newest))
	}
	return method.render(s.node, height), nil
}

// blockchain lists the newest block alone.
func (n *Node) blockchain(height int64) []byte {
	return fmt.Appendf(nil, `{"last_height":"%d","block_metas":[{"block_id":%s,"block_size":"1000","header":%s,"num_txs":"%d"}]}`,
		height, n.chain.blockID(height), n.chain.header(height), len(n.chain.transactions(height)))
}

// abciInfo says which block has been committed: the newest that can be read.
func (n *Node) abciInfo(int64) []byte {
	name, version := n.chain.application()
	height := n.Height() + n.ahead()
	return fmt.Appendf(nil, `{"response":{"data":%q,"version":%q,"last_block_height":"%d","last_block_app_hash":%q}}`,
		name, version, height, state.Base64(n.chain.hash("app", height)))
}
