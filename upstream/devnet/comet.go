package devnet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A cometServer answers as the CometBFT RPC server of a node does, in part: cometMethods
// and subscriptions.
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
	if cometMethods[name] == nil {
		http.NotFound(w, r)
		return
	}
	result, failure := s.call(name, cometParams{Height: []byte(r.URL.Query().Get("height"))}, "http")
	w.Header().Set("Content-Type", "application/json")
	if failure != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(appendAnswer(nil, json.RawMessage("-1"), result, failure))
}

// dispatch answers a call by JSON-RPC. Lists of arguments are not read.
func (s *cometServer) dispatch(r rpcRequest) (json.RawMessage, *rpcError) {
	var p cometParams
	_ = json.Unmarshal(r.Params, &p) // what cannot be read is not given
	return s.call(r.Method, p, "json")
}

// cometParams are the arguments of all methods.
type cometParams struct {
	Height            json.RawMessage // a text or a number
	Hash, Tx          []byte
	Path, Data, Query string

	height int64 // by default the newest
}

// A cometMethod renders its result.
type cometMethod func(*Node, cometParams) (json.RawMessage, *rpcError)

// cometMethods are what can be called.
var cometMethods = map[string]cometMethod{
	"health":        func(*Node, cometParams) (json.RawMessage, *rpcError) { return json.RawMessage("{}"), nil },
	"status":        func(n *Node, _ cometParams) (json.RawMessage, *rpcError) { return n.status(), nil },
	"abci_info":     func(n *Node, _ cometParams) (json.RawMessage, *rpcError) { return n.abciInfo(), nil },
	"block_results": ofBlock((*chain).blockResults),
	"header":        ofBlock(func(c *chain, h int64) []byte { return fmt.Appendf(nil, `{"header":%s}`, c.header(h)) }),
	"block": ofBlock(func(c *chain, h int64) []byte {
		return fmt.Appendf(nil, `{"block_id":%s,"block":%s}`, c.blockID(h), c.block(h))
	}),
	"abci_query": (*Node).query,
	"tx":         (*Node).tx, "tx_search": (*Node).searchTxs, "broadcast_tx_sync": (*Node).broadcastTx, "broadcast_tx_async": (*Node).broadcastTx,
}

// ofBlock is a method that tells of a block.
func ofBlock(render func(c *chain, h int64) []byte) cometMethod {
	return func(n *Node, p cometParams) (json.RawMessage, *rpcError) {
		switch newest := n.Height(); {
		case p.height <= 0:
			return nil, internalError(fmt.Sprintf("height must be greater than 0, but got %d", p.height))
		case p.height > newest:
			return nil, internalError(fmt.Sprintf("height %d must be less than or equal to the current blockchain height %d", p.height, newest))
		}
		return render(n.chain, p.height), nil
	}
}

func internalError(data string) *rpcError {
	return &rpcError{Code: -32603, Message: "Internal error", Data: data}
}

func badParams(notation, text string) *rpcError {
	return &rpcError{Code: -32602, Message: "Invalid params", Data: fmt.Sprintf("error converting %s params to arguments: %s", notation, text)}
}

// call calls a method, in the notation that texts about arguments name.
func (s *cometServer) call(name string, p cometParams, notation string) (json.RawMessage, *rpcError) {
	method := cometMethods[name]
	if method == nil {
		return nil, &rpcError{Code: -32601, Message: "Method not found"}
	}
	p.height = s.node.Height()
	if text := string(p.Height); text != "" && text != "null" {
		var err error
		if p.height, err = strconv.ParseInt(strings.Trim(text, `"`), 10, 64); err != nil {
			return nil, badParams(notation, fmt.Sprintf("invalid 64-bit integer encoding %q, expected string", text))
		}
	}
	return method(s.node, p)
}

// abciInfo says which block has been committed: the newest that can be read.
func (n *Node) abciInfo() []byte {
	name, version, _ := n.chain.application()
	height := n.Height() + n.ahead()
	return fmt.Appendf(nil, `{"response":{"data":%q,"version":%q,"last_block_height":"%d","last_block_app_hash":%q}}`,
		name, version, height, state.Base64(n.chain.hash("app", height)))
}
