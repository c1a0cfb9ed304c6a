package devnet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A cometServer answers as the CometBFT RPC server of a node does, in part:
// status, abci_info, health, header, block and subscriptions to blocks.
type cometServer struct{ node *Node }

// maxRPCBody bounds a JSON-RPC request.
const maxRPCBody = 1 << 20

// ServeHTTP serves methods by path, JSON-RPC at the root, and the websocket.
func (s *cometServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Server-Time", strconv.FormatInt(time.Now().Unix(), 10))
	switch {
	case r.URL.Path == "/websocket":
		s.serveSocket(w, r)
	case r.URL.Path == "/" && r.Method == http.MethodPost:
		s.serveRPC(w, r)
	default:
		s.serveURI(w, r)
	}
}

// serveURI answers GET /method?argument=value.
func (s *cometServer) serveURI(w http.ResponseWriter, r *http.Request) {
	method := strings.TrimPrefix(r.URL.Path, "/")
	if methods[method] == nil {
		http.NotFound(w, r)
		return
	}
	height, failure := heightArgument(r.URL.Query().Get("height"))
	if failure != nil {
		failure.Data = "error converting http params to arguments: " + failure.Data
	}
	answer := s.call(method, json.RawMessage("-1"), height, failure)
	if height != nil || method == "abci_info" {
		w.Header().Set("Cache-Control", "public, max-age=86400")
	}
	w.Header().Set("Content-Type", "application/json")
	if answer.Error != nil {
		w.Header().Del("Cache-Control")
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(encode(answer))
}

// serveRPC answers one JSON-RPC request or a batch.
func (s *cometServer) serveRPC(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRPCBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var batch []rpcRequest
	if json.Unmarshal(body, &batch) == nil {
		answers := make([]rpcResponse, len(batch))
		for i, request := range batch {
			answers[i] = s.dispatch(request)
		}
		_, _ = w.Write(encode(answers))
		return
	}
	var request rpcRequest
	if json.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write(encode(rpcResponse{JSONRPC: "2.0", ID: json.RawMessage("null"), Error: unreadable}))
		return
	}
	_, _ = w.Write(encode(s.dispatch(request)))
}

type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Height json.RawMessage `json:"height"`
		Query  string          `json:"query"`
	} `json:"params"`
}

type rpcResponse struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

// unreadable answers what is not JSON.
var unreadable = &rpcError{-32700, "Parse error. Invalid JSON", "error unmarshaling request"}

func internalError(data string) *rpcError { return &rpcError{-32603, "Internal error", data} }

func encode(value any) []byte {
	b, err := json.Marshal(value)
	if err != nil {
		return []byte(err.Error()) // cannot happen: all values are plain
	}
	return b
}

func (s *cometServer) dispatch(r rpcRequest) rpcResponse {
	height, failure := heightArgument(strings.Trim(string(r.Params.Height), `"`))
	return s.call(r.Method, r.ID, height, failure)
}

// heightArgument parses a height; nil stands for an absent one.
func heightArgument(text string) (*int64, *rpcError) {
	if text == "" || text == "null" {
		return nil, nil
	}
	height, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil {
		return nil, &rpcError{-32602, "Invalid params", fmt.Sprintf("invalid 64-bit integer encoding %q, expected string", text)}
	}
	return &height, nil
}

// methods are what can be called. The height is nil unless it was given.
var methods = map[string]func(n *Node, height *int64) (any, error){
	"health":    func(*Node, *int64) (any, error) { return struct{}{}, nil },
	"status":    func(n *Node, _ *int64) (any, error) { return n.status(), nil },
	"abci_info": func(n *Node, _ *int64) (any, error) { return n.abciInfo(), nil },
	"header":    atHeight(func(c *chain, h int64) []byte { return fmt.Appendf(nil, `{"header":%s}`, c.header(h)) }),
	"block": atHeight(func(c *chain, h int64) []byte {
		return fmt.Appendf(nil, `{"block_id":%s,"block":%s}`, c.blockID(h), c.block(h))
	}),
}

func (s *cometServer) call(method string, id json.RawMessage, height *int64, failure *rpcError) rpcResponse {
	run := methods[method]
	switch {
	case run == nil:
		failure = &rpcError{Code: -32601, Message: "Method not found"}
	case failure == nil:
		result, err := run(s.node, height)
		if err == nil {
			return rpcResponse{JSONRPC: "2.0", ID: id, Result: result}
		}
		failure = internalError(err.Error())
	}
	return rpcResponse{JSONRPC: "2.0", ID: id, Error: failure}
}

// abciInfo says which block has been committed: the newest that can be read.
func (n *Node) abciInfo() any {
	name, version := n.chain.application()
	height := n.Height() + n.ahead()
	return json.RawMessage(fmt.Appendf(nil, `{"response":{"data":%q,"version":%q,"last_block_height":"%d","last_block_app_hash":%q}}`,
		name, version, height, base64Text(n.chain.at(height).hash("app"))))
}

// atHeight answers about the height that is asked for: by default the newest.
func atHeight(render func(c *chain, height int64) []byte) func(*Node, *int64) (any, error) {
	return func(n *Node, height *int64) (any, error) {
		newest := n.Height()
		switch {
		case height == nil:
			height = &newest
		case *height <= 0:
			return nil, fmt.Errorf("height must be greater than 0, but got %d", *height)
		case *height > newest:
			return nil, fmt.Errorf("height %d must be less than or equal to the current blockchain height %d", *height, newest)
		}
		return json.RawMessage(render(n.chain, *height)), nil
	}
}
